export function Conversations() {
  return <section className="panel">Conversations</section>;
}
