/** KV-aware routing in four steps, with a small drawing each. */
import type { RouterState } from "../../api/types";
import { isElsewhere, looksAtCaches, modeName } from "../../lib/mode";
import "./HowItWorks.css";

const cell = (x: number, y: number, kind: string, w = 18) => <rect key={`${x}/${y}`} className={kind} x={x} y={y} width={w} height="16" rx="3" />;
const row = (y: number, held: number, total: number, x = 62) => Array.from({ length: total }, (_, index) => cell(x + index * 22, y, index < held ? "lit" : "dim"));

/** What the last step goes by, in modes that look at caches; other modes are shown what they lack. */
const PICK: Record<string, string> = {
  kv: "In mode KV-aware it picks the worker with the least expected time.",
  "kv-blocks": "In mode KV blocks it picks the worker with the lowest cost: blocks to compute, weighted, and blocks in use.",
};

const DRAWINGS = [
  // A prompt in blocks, each linked to the one before.
  <>
    {Array.from({ length: 7 }, (_, index) => cell(8 + index * 27, 32, index === 6 ? "dim" : "lit", 20))}
    {Array.from({ length: 6 }, (_, index) => (
      <path key={index} className="link" d={`M${18 + index * 27} 30q13.5 -22 27 0`} />
    ))}
    <text x="8" y="68">#1</text>
    <text x="35" y="68">#12</text>
    <text x="62" y="68">#123 …</text>
  </>,
  // Workers tell what they store and drop.
  <>
    {[8, 34, 60].map((y, index) => (
      <g key={y}>
        <circle className={`w${index}`} cx="14" cy={y + 8} r="6" />
        <text x="28" y={y + 12}>{["stored 3", "stored 1", "removed 2"][index]}</text>
        <path className="link" d={`M104 ${y + 8}H150`} markerEnd="none" />
      </g>
    ))}
    <rect className="box" x="150" y="8" width="44" height="68" rx="6" />
    <text x="172" y="46" textAnchor="middle">index</text>
  </>,
  // Who holds which prefix.
  <>
    {[8, 34, 60].map((y, index) => (
      <g key={y}>
        <circle className={`w${index}`} cx="14" cy={y + 8} r="6" />
        <text x="28" y={y + 12}>{[2, 6, 0][index]} of 6</text>
        {row(y, [2, 6, 0][index] ?? 0, 6, 68)}
      </g>
    ))}
  </>,
  // Least expected time wins.
  <>
    {[8, 34, 60].map((y, index) => (
      <g key={y}>
        <circle className={`w${index}`} cx="14" cy={y + 8} r="6" />
        <rect className={index === 1 ? "win" : "dim"} x="28" y={y} width={[120, 34, 160][index]} height="16" rx="3" />
      </g>
    ))}
    <text className="win-text" x="70" y="46">✓ the least wins</text>
  </>,
];

/** What the router in force does with it. */
function modeNote(router: RouterState) {
  if (isElsewhere(router)) return <span className="badge">the target routes by its own rules; this is how Homing does it</span>;
  if (looksAtCaches(router.mode)) return <span className="muted small">a turn goes to the worker that already holds its conversation, unless another is quicker</span>;
  return <span className="badge near">current mode: {modeName(router.mode)}, which ignores caches: hits happen by chance</span>;
}

export function HowItWorks({ blockSize, router }: { blockSize: number; router: RouterState }) {
  const steps = [
    { title: "Cut into blocks", words: `A prompt is cut into blocks of ${blockSize} tokens. The hash of a block covers every block before it, so one hash identifies a whole prefix.` },
    { title: "Workers report", words: "Each worker reports which blocks it has stored in its KV cache and which it has evicted." },
    { title: "The router knows", words: "For a new prompt the router looks up how many leading blocks each worker still holds." },
    { title: "Pick and reserve", words: `${PICK[router.mode] ?? PICK["kv"]} It reserves the slot in the same step, so that the next pick already sees it.` },
  ];
  return (
    <section className="panel">
      <header className="page-head">
        <h2>KV Routing</h2>
        {modeNote(router)}
      </header>
      <ol className="steps">
        {steps.map(({ title, words }, index) => (
          <li key={title}>
            <svg viewBox="0 0 204 84" aria-hidden="true">
              {DRAWINGS[index]}
            </svg>
            <h2>
              {index + 1}. {title}
            </h2>
            <p className="muted small">{words}</p>
          </li>
        ))}
      </ol>
    </section>
  );
}
