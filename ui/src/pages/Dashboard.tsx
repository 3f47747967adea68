export function Dashboard() {
  return <section className="panel">Dashboard</section>;
}
