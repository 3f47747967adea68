export function KvRouting() {
  return <section className="panel">KvRouting</section>;
}
