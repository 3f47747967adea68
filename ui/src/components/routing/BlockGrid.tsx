/** Workers by blocks: what each held when one request was placed. */
import { type BlockMap, cellPath, type MapRow, mapWidth } from "../../lib/blockmap";
import { number } from "../../lib/format";
import { workerColour, workerName } from "../../lib/workers";
import { WorkerName } from "../WorkerName";
import "./BlockGrid.css";

type Props = {
  map: BlockMap;
  /** Blocks that the full width stands for, so that several maps can be compared. */
  scale: number;
  small?: boolean;
};

export function BlockGrid({ map, scale, small = false }: Props) {
  const height = small ? 6 : 18;
  const width = { width: `${scale > 0 ? (100 * map.blocks) / scale : 100}%` };
  return (
    <div className={small ? "block-grid small" : "block-grid"} role="list">
      {map.rows.map((row) => (
        <div key={row.worker} className="row" role="listitem" aria-label={said(row, map.blocks)} title={said(row, map.blocks)}>
          {!small && <WorkerName worker={row.worker} />}
          <div className="cells">
            <svg style={width} viewBox={`0 0 ${mapWidth(row.cells.length)} ${height}`} preserveAspectRatio="none" aria-hidden="true">
              <path className="missing" d={cellPath(row.cells, "missing", height)} />
              <path className="held" style={{ fill: workerColour(row.worker) }} d={cellPath(row.cells, "held", height)} />
              <path className="part" style={{ fill: workerColour(row.worker) }} d={cellPath(row.cells, "part", height)} />
              <path className="computed" d={cellPath(row.cells, "computed", height)} />
            </svg>
          </div>
          {!small && (
            <span className="figure">
              <b>{number(row.held)}</b> of {number(map.blocks)} {row.chosen && <span className="badge good">✓ chosen</span>}
            </span>
          )}
        </div>
      ))}
    </div>
  );
}

function said(row: MapRow, blocks: number): string {
  const computed = blocks - row.held;
  return `${workerName(row.worker)} held ${row.held} of ${blocks} blocks${row.chosen ? `; chosen, computed ${computed}` : ""}`;
}

export function BlockLegend({ perCell }: { perCell: number }) {
  return (
    <p className="block-legend muted small">
      <span><i className="held" /> held by the worker (in its colour)</span>
      <span><i className="computed" /> recomputed by the chosen worker</span>
      <span><i className="missing" /> not cached</span>
      {perCell > 1 && <span>one cell is {perCell} blocks</span>}
    </p>
  );
}
