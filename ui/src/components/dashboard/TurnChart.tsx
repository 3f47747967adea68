/** TTFT by turn number: the reason for KV-aware routing in one picture. */
import { type Percentile, ticks, type TurnLine, inWords } from "../../lib/turns";
import { number } from "../../lib/format";
import { modeColour } from "../../lib/mode";

/** Units of the drawing; it scales with its box. */
const [WIDTH, HEIGHT] = [400, 330];
const FRAME = { left: 46, right: 12, top: 12, bottom: 34 };

export function TurnChart({ lines, percentile }: { lines: readonly TurnLine[]; percentile: Percentile }) {
  const points = lines.flatMap((line) => line.points);
  const marks = ticks(Math.max(...points.map((point) => point.value), 50));
  const top = marks[marks.length - 1] ?? 1;
  const turns = Math.max(5, ...points.map((point) => point.turn));
  const x = (turn: number) => FRAME.left + 12 + ((turn - 1) / (turns - 1)) * (WIDTH - FRAME.left - FRAME.right - 24);
  const y = (value: number) => HEIGHT - FRAME.bottom - (value / top) * (HEIGHT - FRAME.top - FRAME.bottom);
  return (
    <figure className="turn-chart">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`TTFT ${percentile} by turn number. ${inWords(lines)}`}>
        {marks.map((mark) => (
          <g key={mark}>
            <line className="grid" x1={FRAME.left} x2={WIDTH - FRAME.right} y1={y(mark)} y2={y(mark)} />
            <text x={FRAME.left - 7} y={y(mark)} textAnchor="end" dominantBaseline="central">{number(mark)}</text>
          </g>
        ))}
        {Array.from({ length: turns }, (_, index) => (
          <text key={index} x={x(index + 1)} y={HEIGHT - FRAME.bottom + 16} textAnchor="middle">{index + 1}</text>
        ))}
        <text x={(FRAME.left + WIDTH - FRAME.right) / 2} y={HEIGHT - 3} textAnchor="middle">turn of the conversation</text>
        {[...lines].reverse().map((line) => (
          <Drawn key={line.label} line={line} x={x} y={y} percentile={percentile} />
        ))}
        {points.length === 0 && <text x={WIDTH / 2} y={HEIGHT / 2} textAnchor="middle">Nothing measured yet.</text>}
      </svg>
      <ul className="legend">
        {lines.map((line) => (
          <li key={line.label}>
            <svg viewBox="0 0 28 10" aria-hidden="true">
              <line className={line.live ? "" : "fixed"} x1="1" x2="27" y1="5" y2="5" stroke={modeColour(line.mode)} strokeWidth="2.4" />
              {line.live && <Dot mode={line.mode} x={14} y={5} />}
            </svg>
            {line.label}
          </li>
        ))}
      </ul>
    </figure>
  );
}

type Scale = (value: number) => number;

function Drawn({ line, x, y, percentile }: { line: TurnLine; x: Scale; y: Scale; percentile: Percentile }) {
  const path = line.points.map((point, index) => `${index === 0 ? "M" : "L"}${x(point.turn).toFixed(1)} ${y(point.value).toFixed(1)}`).join("");
  return (
    <g>
      <path className={line.live ? "drawn" : "drawn fixed"} d={path} stroke={modeColour(line.mode)} />
      {line.points.map((point) => (
        <g key={point.turn}>
          <title>{`${line.label}, turn ${point.turn}: ${percentile} ${number(point.value)} ms of ${number(point.samples)} requests`}</title>
          <circle cx={x(point.turn)} cy={y(point.value)} r="9" fill="transparent" />
          {line.live && <Dot mode={line.mode} x={x(point.turn)} y={y(point.value)} />}
        </g>
      ))}
    </g>
  );
}

/** Shapes differ, so that colour is not all that tells modes apart. */
function Dot({ mode, x, y }: { mode: string; x: number; y: number }) {
  const colour = modeColour(mode);
  if (mode === "kv") return <circle cx={x} cy={y} r="4" fill={colour} />;
  if (mode === "round-robin") return <rect x={x - 3.8} y={y - 3.8} width="7.6" height="7.6" fill={colour} />;
  return <path d={`M${x} ${y - 4.6}l4.4 8h-8.8z`} fill={colour} />;
}
