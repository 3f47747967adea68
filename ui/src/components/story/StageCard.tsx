/** One stage of the story: its figures, each with a bar that can be compared with its neighbours. */
import { DASH, ms, number, percent } from "../../lib/format";
import type { Stage } from "../../lib/story";
import type { StoryCell } from "../../lib/story-file";

type Row = { label: string; of: (cell: StoryCell) => number | null; format: (value: number | null) => string; /** `null` where neither is better. */ lessIsBetter: boolean | null };

const ROWS: readonly Row[] = [
  { label: "TTFT p95", of: (cell) => cell.ttft_p95_ms, format: ms, lessIsBetter: true },
  { label: "TPOT p95", of: (cell) => cell.tpot_p95_ms, format: ms, lessIsBetter: true },
  { label: "tokens/s", of: (cell) => cell.tops, format: (value) => number(value), lessIsBetter: false },
  { label: "accepted", of: (cell) => cell.acceptance_pct, format: percent, lessIsBetter: null },
  { label: "tokens per step", of: (cell) => cell.tokens_per_step, format: (value) => number(value, 2), lessIsBetter: null },
];

/** How a stage is brought about; `null` where this system cannot be switched. */
export type Run = { press(): void; /** Why it cannot be pressed. */ why: string | null };
type Props = { number: number; stage: Stage; cell: StoryCell; /** Those of all stages; the first is what is compared with. */ all: readonly StoryCell[]; current: boolean; run: Run | null };

export function StageCard({ number: position, stage, cell, all, current, run }: Props) {
  const [first] = all;
  return (
    <li className={current ? "stage current" : "stage"} data-stage={stage.mode} aria-current={current ? "step" : undefined}>
      <h3>
        <span className="position" aria-hidden="true">{position}</span> {stage.name}
        {current && <span className="badge active">running now</span>}
      </h3>
      <p className="muted words">
        {stage.words}
        {run && !current && (
          <button type="button" className="quiet run" disabled={run.why !== null} title={run.why ?? undefined} aria-label={`Run now: stage ${position}, ${stage.name}`} onClick={run.press}>
            Run now
          </button>
        )}
      </p>
      {ROWS.map((row) => {
        const value = row.of(cell);
        const most = Math.max(...all.map((each) => row.of(each) ?? 0));
        return (
          <div key={row.label} className="stage-row">
            <span className="muted label">{row.label}</span>
            <b>{row.format(value)}</b>
            <Change row={row} from={first && first !== cell ? row.of(first) : null} to={value} />
            <span className="bar-track" aria-hidden="true">
              <span style={{ width: `${most > 0 ? (100 * (value ?? 0)) / most : 0}%` }} />
            </span>
          </div>
        );
      })}
    </li>
  );
}

function Change({ row, from, to }: { row: Row; from: number | null; to: number | null }) {
  if (row.lessIsBetter === null || from === null || to === null || from === 0) return <span className="change" />;
  const change = (100 * (to - from)) / from;
  const better = change < 0 === row.lessIsBetter;
  const text = Math.round(change) === 0 ? DASH : `${change > 0 ? "+" : "−"}${Math.abs(change).toFixed(0)} %`;
  return <span className={better ? "change better" : "change worse"}>{text}</span>;
}
