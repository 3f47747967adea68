/** Three layers: live figures of the last minute, and the baseline's at this load for KV-aware routing and for round robin. */
import { cellOf, KV } from "../../lib/baseline";
import { matchOf, rrOf, type Scene } from "../../lib/comparable";
import { measuredUnder } from "../../lib/disturbance";
import { DASH, ms, number, seconds } from "../../lib/format";
import { contender } from "../../lib/headline";
import { modeName } from "../../lib/mode";
import { FIXED, type Judged, judged, judgedThroughput, type Latency, LIVE, liveStanding } from "../../lib/verdict";
import type { Slos } from "../../api/types";
import { Held } from "./Held";

type Row = {
  key: Latency;
  name: string;
  hint: string;
  format: (value: number | null | undefined) => string;
  objective: (slos: Slos) => number | null;
};

const ROWS: readonly Row[] = [
  { key: "ttft", name: "TTFT", hint: "Time to first token, from sending. A cached prompt shortens it.", format: ms, objective: (slos) => slos.ttft_p95_ms },
  { key: "tpot", name: "TPOT", hint: "Time per output token after the first; one value per request.", format: ms, objective: (slos) => slos.tpot_p95_ms },
  { key: "itl", name: "ITL", hint: "Inter-token latency: gaps as the client sees them; one a token.", format: ms, objective: () => null },
  { key: "e2e", name: "Latency", hint: "End to end, from sending to the last token.", format: (value) => seconds(value, 2), objective: () => null },
];

export function ComparisonTable({ scene }: { scene: Scene }) {
  const under = measuredUnder(scene.state, scene.points);
  const fixed = scene.baseline ? (scene.baseline.simulated ? "simulated before" : "measured before") : "baseline";
  const mode = contender(scene);
  const swept = mode === KV ? "KV" : modeName(mode);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Live figures beside the baseline's">
      <table className="comparison">
        <thead>
          <tr>
            <th scope="col">Last minute</th>
            <th scope="col" className="number">Live p50 <small>{under}</small></th>
            <th scope="col" className="number rr kv">{swept} p50 <small>{fixed}</small></th>
            <th scope="col" className="number rr">RR p50 <small>{fixed}</small></th>
            <th scope="col" className="number">Live p95 <small>{under}</small></th>
            <th scope="col" className="number rr kv">{swept} p95 <small>{fixed}</small></th>
            <th scope="col" className="number rr">RR p95 <small>{fixed}</small></th>
            <th scope="col" className="number">Against RR <small>by p95</small></th>
            <th scope="col" className="number">Samples</th>
          </tr>
        </thead>
        <tbody>
          {ROWS.map((row) => (
            <Compared key={row.key} row={row} scene={scene} />
          ))}
          <Throughput scene={scene} />
        </tbody>
      </table>
    </div>
  );
}

/** The cache-aware mode of the baseline, at this load. */
const sweptOf = (scene: Scene) => cellOf(matchOf(scene)?.level, contender(scene));

function Name({ name, hint }: { name: string; hint: string }) {
  return (
    <th scope="row">
      <span className="name">{name}</span>
      <small>{hint}</small>
    </th>
  );
}

function Compared({ row, scene }: { row: Row; scene: Scene }) {
  const window = scene.state.load?.window;
  const [figures, kv, rr] = [window ? LIVE[row.key](window) : null, sweptOf(scene), rrOf(scene)];
  const fixed = rr ? FIXED[row.key](rr) : null;
  const ours = kv ? FIXED[row.key](kv) : null;
  const objective = row.objective(scene.state.slos);
  return (
    <tr>
      <Name name={row.name} hint={row.hint} />
      <td className="number live">{row.format(figures?.p50)}</td>
      <td className="number rr kv">{row.format(ours?.p50)}</td>
      <td className="number rr">{row.format(fixed?.p50)}</td>
      <td className="number live">
        <Held text={row.format(figures?.p95)} stands={objective === null ? "unknown" : liveStanding(scene, row.key, objective)} />
      </td>
      <td className="number rr kv">{row.format(ours?.p95)}</td>
      <td className="number rr">{row.format(fixed?.p95)}</td>
      <Against judged={judged(scene, row.key)} />
      <td className="number muted">{figures && figures.samples > 0 ? number(figures.samples) : DASH}</td>
    </tr>
  );
}

/** A rate has no percentiles: its two figures stand where medians do. */
function Throughput({ scene }: { scene: Scene }) {
  const [window, rr] = [scene.state.load?.window, rrOf(scene)];
  const known = window !== undefined && window.requests > 0;
  return (
    <tr>
      <Name name="TOPS" hint="Output tokens per second, all workers together. More is better." />
      <td className="number live">{known ? number(window.tops) : DASH}</td>
      <td className="number rr kv">{number(sweptOf(scene)?.tops)}</td>
      <td className="number rr">{number(rr?.tops)}</td>
      <td className="number muted" aria-label="no percentile" />
      <td className="number rr kv" aria-label="no percentile" />
      <td className="number rr" aria-label="no percentile" />
      <Against judged={judgedThroughput(scene)} />
      <td className="number muted">{known ? number(window.requests) : DASH}</td>
    </tr>
  );
}

function Against({ judged: { verdict, doubt } }: { judged: Judged }) {
  if (!verdict) {
    return (
      <td className="number gain none" title={doubt?.long}>
        {doubt?.short ?? DASH}
      </td>
    );
  }
  return (
    <td className={`number gain ${verdict.better === null ? "" : verdict.better ? "better" : "worse"}`}>
      {verdict.text}
      {verdict.of === "p50" && <small className="muted" title="Too few samples for a p95."> p50</small>}
    </td>
  );
}
