/** For each worker that guesses ahead: how often a guess is kept at each position of a draft, how long drafts are and what they cost. */
import type { SpeculationState, WorkerState } from "../api/types";
import { number, percent } from "../lib/format";
import "./DraftPositions.css";
import { WorkerName } from "./WorkerName";

export function DraftPositions({ workers }: { workers: ReadonlyArray<WorkerState> }) {
  const guessing = workers.filter((worker) => worker.speculation.drafts > 0);
  if (guessing.length === 0) return null;
  return (
    <ul className="drafts" aria-label="Drafts by worker">
      {guessing.map(({ id, speculation }) => (
        <li key={id}>
          <WorkerName worker={id} />
          <Bars speculation={speculation} />
          <span className="muted small nums">{cost(speculation)}</span>
        </li>
      ))}
    </ul>
  );
}

/** An engine of others reports neither how long its drafts are nor what they cost. */
const cost = ({ draft_length: length, draft_time_pct: time }: SpeculationState): string =>
  [length !== null && `K ${number(length)}`, time !== null && `drafting ${percent(time)} of step time`].filter(Boolean).join(" · ");

function Bars({ speculation: { position_acceptance_pct: positions } }: { speculation: SpeculationState }) {
  const words = positions.map((kept, index) => `${index + 1}: ${percent(kept, 0)}`).join(", ");
  return (
    <span className="positions" role="img" aria-label={`Kept by position: ${words}`} title={`Kept by position: ${words}`}>
      {positions.map((kept, index) => (
        // A position has no name but its number.
        // oxlint-disable-next-line react/no-array-index-key
        <span key={index}>
          <span style={{ height: `${kept ?? 0}%` }} />
        </span>
      ))}
    </span>
  );
}
