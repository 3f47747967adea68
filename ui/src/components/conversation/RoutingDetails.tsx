/** Why a turn went to its worker: the router's reason, and every worker that it looked at. */
import type { Routing } from "../../api/types";
import { DASH, ms, number } from "../../lib/format";
import { modeName } from "../../lib/mode";
import { plainReason } from "../../lib/reason";
import { Scroll } from "../Scroll";
import { WorkerName } from "../WorkerName";

export function RoutingDetails({ routing, worker }: { routing: Routing; worker: string | undefined }) {
  const chosen = worker ?? null;
  return (
    <details className="routing">
      <summary>
        <span className="mode">{modeName(routing.mode)}</span> <span className="reason">{plainReason(routing, chosen)}</span>
      </summary>
      <p className="muted small">
        {routing.queued_ms >= 0.05 ? `Waited ${ms(routing.queued_ms)} for a slot. ` : "Did not wait for a slot. "}
        First token expected after {ms(routing.predicted_ttft_ms)}. In the router's own terms: {routing.reason}.
      </p>
      <Scroll label="Workers that the router looked at">
        <table>
          <thead>
            <tr>
              <th scope="col">Worker</th>
              <th scope="col" className="number">Cached blocks</th>
              <th scope="col" className="number">In flight</th>
              <th scope="col" className="number" title={routing.mode === "kv" ? "Expected time of this request and what it costs the others there" : undefined}>
                Cost{routing.mode === "kv" && ", ms"}
              </th>
              <th scope="col">
                <span className="visually-hidden">Chosen</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {routing.candidates.map((candidate) => (
              <tr key={candidate.worker} className={candidate.worker === chosen ? "chosen" : undefined}>
                <td>
                  <WorkerName worker={candidate.worker} />
                </td>
                <td className="number">
                  {number(candidate.overlap_blocks)} of {number(routing.blocks)}
                </td>
                <td className="number">{number(candidate.in_flight)}</td>
                <td className="number">{candidate.cost === null ? DASH : number(candidate.cost, 1)}</td>
                <td>{candidate.worker === chosen && <span className="badge good">✓ chosen</span>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </details>
  );
}
