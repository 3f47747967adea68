/** A worker, in its colour and by its name. */
import { fullName, workerColour, workerName } from "../lib/workers";
import "./parts.css";

export function WorkerName({ worker }: { worker: string }) {
  return (
    <span className="worker-name" title={fullName(worker)}>
      <span className="dot" style={{ background: workerColour(worker) }} aria-hidden="true" />
      {workerName(worker)}
    </span>
  );
}
