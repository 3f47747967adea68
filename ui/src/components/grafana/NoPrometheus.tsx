/** What to start so that there is something to draw. */
import { CopyButton } from "../CopyButton";

const ALL_IN_ONE = "homing demo --observability";
const ONE_OF_YOUR_OWN = "homing demo --prometheus-url http://127.0.0.1:9090";

export function NoPrometheus() {
  return (
    <div className="no-prometheus" role="status">
      <p>
        <b>No Prometheus is connected</b>, so the panels show only their queries. Start the demo with one:
      </p>
      <p className="command"><code>{ALL_IN_ONE}</code> <CopyButton text={ALL_IN_ONE} label="Copy the first command" /></p>
      <p>or beside one of your own, which reads <code>dashboards/prometheus/demo.yml</code>:</p>
      <p className="command"><code>{ONE_OF_YOUR_OWN}</code> <CopyButton text={ONE_OF_YOUR_OWN} label="Copy the second command" /></p>
    </div>
  );
}
