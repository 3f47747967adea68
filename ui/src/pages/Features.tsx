export function Features() {
  return <section className="panel">Features</section>;
}
