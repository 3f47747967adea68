/** Boxes of the architecture drawing and what stands in them. */
import type { ReactNode } from "preact/compat";
import type { WorkerState } from "../../api/types";
import type { Box } from "../../lib/drawing";
import { number, percent } from "../../lib/format";
import { type Placed, partWords } from "../../lib/parts";
import { fullName, workerColour, workerName } from "../../lib/workers";

type Line = { label: string; value: string };
type PartProps = { box: Box; title: string; lines: Line[]; /** Its name for those who let it light up. */ pulse?: string; colour?: string; children?: ReactNode };

const [PAD, TITLE_Y, FIRST_Y, LINE_HEIGHT] = [14, 26, 52, 22];

export function Part({ box, title, lines, pulse, colour = "var(--line)", children }: PartProps) {
  return (
    <g transform={`translate(${box.x} ${box.y})`}>
      <rect className="box" width={box.w} height={box.h} rx="12" style={{ stroke: colour }} />
      {pulse !== undefined && <rect data-pulse={pulse} className="pulse" width={box.w} height={box.h} rx="12" style={{ stroke: colour, fill: colour }} />}
      <text className="title" x={PAD} y={TITLE_Y}>
        {title}
      </text>
      {lines.map(({ label, value }, index) => (
        <g key={label} transform={`translate(0 ${FIRST_Y + index * LINE_HEIGHT})`}>
          <text className="label" x={PAD}>
            {label}
          </text>
          <text className="figure" x={box.w - PAD} textAnchor="end">
            {value}
          </text>
        </g>
      ))}
      {children}
    </g>
  );
}

/** A part of the deployment beside the system itself: its name, what it is for, where it is. */
export function ShelfPart({ part, role, box }: Placed) {
  return (
    <g className="shelf" transform={`translate(${box.x} ${box.y})`}>
      <title>{partWords(part)}</title>
      <rect className="box" width={box.w} height={box.h} rx="10" />
      <text className="title" x={PAD} y={TITLE_Y - 1}>
        {part.name}
        <tspan className="label">{`  ${fitted(role, (box.w - 2 * PAD - 9 * part.name.length) / 7)}`}</tspan>
      </text>
      {part.detail !== null && (
        <text className="label" x={PAD} y={FIRST_Y - 4}>
          {fitted(part.detail, (box.w - 2 * PAD) / 7)}
        </text>
      )}
    </g>
  );
}

/** Cut where the box ends; the whole is in the title. */
const fitted = (text: string, letters: number): string => (text.length <= letters ? text : letters < 5 ? "" : `${text.slice(0, Math.floor(letters) - 1)}…`);

function Meter({ x, y, width, share, second = 0, colour }: { x: number; y: number; width: number; share: number; second?: number; colour: string }) {
  const first = width * Math.min(1, share);
  return (
    <g transform={`translate(${x} ${y})`} aria-hidden="true">
      <rect className="meter" width={width} height="6" rx="3" />
      <rect width={first} height="6" rx="3" style={{ fill: colour }} />
      <rect x={first} width={Math.min(width - first, width * second)} height="6" rx="3" style={{ fill: colour, opacity: 0.4 }} />
    </g>
  );
}

export function WorkerPart({ box, worker, rate }: { box: Box; worker: WorkerState; rate: number | null }) {
  const colour = workerColour(worker.id);
  const { cache } = worker;
  const share = (blocks: number) => blocks / Math.max(1, cache.total_blocks);
  // Some engines do not say how much memory they have.
  const fill = cache.total_blocks > 0 ? 100 * share(cache.active_blocks + cache.cached_blocks) : null;
  const [small, inner] = [box.h < 110, box.w - 2 * PAD];
  // "GPU, simulated" is the longest label.
  const columns = [0, 0.3, 0.71].map((share) => PAD + share * inner);
  return (
    <g transform={`translate(${box.x} ${box.y})`}>
      <title>{fullName(worker.id) ?? worker.name}</title>
      <rect className="box" width={box.w} height={box.h} rx="12" style={{ stroke: colour }} />
      <rect data-pulse={worker.id} className="pulse" width={box.w} height={box.h} rx="12" style={{ stroke: colour, fill: colour }} />
      <circle cx={PAD + 5} cy={small ? 16 : 21} r="5" style={{ fill: colour }} />
      <text className="title" x={PAD + 17} y={small ? 21 : 26}>
        {workerName(worker.id)}
        {worker.draining && " · leaving"}
      </text>
      <text className="figure" x={box.w - PAD} y={small ? 21 : 26} textAnchor="end">
        {rate === null ? "—" : number(rate, 1)}
        <tspan className="label">{box.w >= 280 ? " req/s" : " /s"}</tspan>
      </text>
      {[
        { label: "in flight", value: `${number(worker.in_flight)} of ${number(worker.slots)}`, meter: worker.in_flight / Math.max(1, worker.slots), second: 0 },
        { label: worker.simulated ? "GPU, simulated" : "GPU", value: worker.utilization === null ? "—" : percent(100 * worker.utilization, 0), meter: worker.utilization ?? 0, second: 0 },
        { label: "cache", value: percent(fill, 0), meter: share(cache.active_blocks), second: share(cache.cached_blocks) },
      ].map(({ label, value, meter, second }, index) =>
        box.w >= 280 ? (
          <g key={label} transform={`translate(${columns[index] ?? 0} ${small ? 42 : 56})`}>
            <text className="label">{label}</text>
            <text className="figure" y={small ? 17 : 22}>
              {value}
            </text>
            <Meter x={0} y={small ? 23 : 34} width={0.26 * inner} share={meter} second={second} colour={colour} />
          </g>
        ) : (
          <g key={label} transform={`translate(${PAD} ${50 + index * 26})`}>
            <text className="label">{label}</text>
            <text className="figure" x={inner} textAnchor="end">
              {value}
            </text>
            <Meter x={0} y={6} width={inner} share={meter} second={second} colour={colour} />
          </g>
        ),
      )}
    </g>
  );
}
