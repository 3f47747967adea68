/** A worker, in its colour and by its name. */
import { workerColour } from "../lib/mode";
import { workerNumber } from "../lib/timeline";
import "./parts.css";

export function WorkerName({ worker }: { worker: number | string }) {
  const number = typeof worker === "number" ? worker : workerNumber(worker);
  return (
    <span className="worker-name">
      <span className="dot" style={{ background: number === null ? "var(--muted)" : workerColour(number) }} aria-hidden="true" />
      {number === null ? worker : `worker ${number}`}
    </span>
  );
}
