/** Live figures of the last minute beside the baseline's for round robin. */
import type { BaselineCell, BaselineFigures, Figures, Slos, WindowFigures } from "../../api/types";
import { difference } from "../../lib/baseline";
import { DASH, ms, number, seconds } from "../../lib/format";
import { standing } from "../../lib/slo";
import { Held } from "./Held";

type Row = {
  name: string;
  hint: string;
  format: (value: number | null | undefined) => string;
  live: (window: WindowFigures) => Figures;
  rr: (cell: BaselineCell) => BaselineFigures;
  objective: (slos: Slos) => number | null;
};

const ROWS: readonly Row[] = [
  {
    name: "TTFT",
    hint: "Time to first token, from sending. A cached prompt shortens it.",
    format: ms,
    live: (window) => window.ttft_ms,
    rr: (cell) => cell.ttft_ms,
    objective: (slos) => slos.ttft_p95_ms,
  },
  {
    name: "TPOT",
    hint: "Time per output token after the first; one value per request.",
    format: ms,
    live: (window) => window.tpot_ms,
    rr: (cell) => cell.tpot_ms,
    objective: (slos) => slos.tpot_p95_ms,
  },
  {
    name: "ITL",
    hint: "Inter-token latency: gaps as the client sees them; one a token.",
    format: ms,
    live: (window) => window.itl_ms,
    rr: (cell) => cell.itl_ms,
    objective: () => null,
  },
  {
    name: "Latency",
    hint: "End to end, from sending to the last token.",
    format: (value) => seconds(value, 2),
    live: (window) => window.e2e_ms,
    rr: (cell) => cell.e2e_ms,
    objective: () => null,
  },
];

type Props = { liveName: string; window: WindowFigures | null; rr: BaselineCell | null; slos: Slos };

export function ComparisonTable({ liveName, window, rr, slos }: Props) {
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Live figures and round robin">
      <table className="comparison">
        <thead>
          <tr>
            <th scope="col">Last minute</th>
            <th scope="col" className="number">Live p50 <small>{liveName}</small></th>
            <th scope="col" className="number rr">RR p50 <small>baseline</small></th>
            <th scope="col" className="number">Live p95 <small>{liveName}</small></th>
            <th scope="col" className="number rr">RR p95 <small>baseline</small></th>
            <th scope="col" className="number">p95 against RR</th>
            <th scope="col" className="number">Samples</th>
          </tr>
        </thead>
        <tbody>
          {ROWS.map((row) => (
            <Compared key={row.name} row={row} figures={window ? row.live(window) : null} rr={rr ? row.rr(rr) : null} slos={slos} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Compared({ row, figures, rr, slos }: { row: Row; figures: Figures | null; rr: BaselineFigures | null; slos: Slos }) {
  const objective = row.objective(slos);
  const stands = objective === null ? "unknown" : standing(figures?.p95, objective);
  const gain = difference(rr?.p95, figures?.p95);
  return (
    <tr>
      <th scope="row">
        <span className="name">{row.name}</span>
        <small>{row.hint}</small>
      </th>
      <td className="number live">{row.format(figures?.p50)}</td>
      <td className="number rr">{row.format(rr?.p50)}</td>
      <td className="number live">
        <Held text={row.format(figures?.p95)} stands={stands} />
      </td>
      <td className="number rr">{row.format(rr?.p95)}</td>
      <td className={`number gain ${gain?.better === false ? "worse" : gain?.better ? "better" : ""}`}>{gain?.text ?? DASH}</td>
      <td className="number muted">{figures && figures.samples > 0 ? number(figures.samples) : DASH}</td>
    </tr>
  );
}
