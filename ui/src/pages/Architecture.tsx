export function Architecture() {
  return <section className="panel">Architecture</section>;
}
