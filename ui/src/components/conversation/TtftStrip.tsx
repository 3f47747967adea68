/** Time to first token of every turn as bars: whether later turns were faster is seen at a glance. */
import type { Turn } from "../../api/types";
import { ms, percent } from "../../lib/format";
import { cachedShare } from "../../lib/timeline";
import { workerColour } from "../../lib/workers";
import { WorkerName } from "../WorkerName";
import "./TtftStrip.css";

/** Bars below this much are all short: tens of milliseconds are not to look like a difference. */
const LEAST_SCALE_MS = 200;

export function TtftStrip({ turns, planned }: { turns: Turn[]; planned: number }) {
  const longest = Math.max(LEAST_SCALE_MS, ...turns.map((turn) => turn.answered?.ttft_ms ?? 0));
  const rows = Array.from({ length: Math.max(planned, turns.length) }, (_, index) => turns[index] ?? null);
  return (
    <figure className="ttft-strip">
      <figcaption className="muted small">Time to first token by turn, full width is {ms(longest)}; the colour is the worker's</figcaption>
      <ol>
        {rows.map((turn, index) => (
          // oxlint-disable-next-line react/no-array-index-key
          <Row key={index} number={index + 1} turn={turn} longest={longest} />
        ))}
      </ol>
    </figure>
  );
}

function Row({ number, turn, longest }: { number: number; turn: Turn | null; longest: number }) {
  const record = turn?.answered ?? null;
  return (
    <li>
      <span className="turn">Turn {number}</span>
      <span className="track">
        {record?.ttft_ms !== undefined && (
          <span
            className="bar"
            style={{ width: `${(100 * record.ttft_ms) / longest}%`, background: record.worker === undefined ? "var(--muted)" : workerColour(record.worker) }}
          />
        )}
      </span>
      <span className="figure">{record ? ms(record.ttft_ms) : <span className="muted">{turn ? "under way" : "to come"}</span>}</span>
      <span className="cached muted">{record && `${percent(cachedShare(record))} cached`}</span>
      <span className="who">{record?.worker !== undefined && <WorkerName worker={record.worker} />}</span>
    </li>
  );
}
