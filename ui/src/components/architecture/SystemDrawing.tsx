/** The whole system as it runs: boxes with figures, lines, and a dot for every routed request. */
import type { Decision, State, Part as StatePart } from "../../api/types";
import { type Box, type Curve, curvePath, narrow, wide, workerBoxes } from "../../lib/drawing";
import { DASH, number } from "../../lib/format";
import { REDUCED_MOTION, useMedia } from "../../lib/media";
import { looksAtCaches, modeName } from "../../lib/mode";
import { hasMetrics, narrowShelf, partOf, partWords, wideShelf } from "../../lib/parts";
import { workerName } from "../../lib/workers";
import { Dots } from "./Dots";
import { Part, ShelfPart, WorkerPart } from "./Parts";
import { useFlow } from "./useFlow";
import "./SystemDrawing.css";

export function SystemDrawing({ state }: { state: State }) {
  const flow = useFlow();
  const isNarrow = useMedia("(max-width: 900px)");
  const still = useMedia(REDUCED_MOTION);
  const { shown, more } = workerBoxes(state.workers.length);
  const layout = (isNarrow ? narrow : wide)(shown + (more > 0 ? 1 : 0));
  const positions = new Map(state.workers.map((worker, index) => [worker.id, Math.min(index, shown + (more > 0 ? 0 : -1))]));
  const boxOf = (worker: string) => positions.get(worker) ?? -1;
  const total = flow.rates && [...flow.rates.values()].reduce((sum, rate) => sum + rate, 0);
  const rest = state.workers.slice(shown);
  const rateOf = (worker: string) => flow.rates && (flow.rates.get(worker) ?? 0);
  const busy = (state.requests.in_flight ?? 0) > 0;
  const { load, router } = state;
  const { parts } = state;
  const shelf = (isNarrow ? narrowShelf : wideShelf)(layout, parts);
  const [right, left] = shelf.frame ? [shelf.frame.x + shelf.frame.w, 0] : [layout.width, 0];
  const read = hasMetrics(parts);
  const events = partOf(parts, "events");
  const [loadPart, frontendPart, workersPart] = (["load", "frontend", "workers"] as const).map((kind) => partOf(parts, kind));
  const [middleFrom, middleTo] = [layout.toFrontend[0], layout.toFrontend[3]];
  return (
    <svg className={isNarrow ? "system narrow" : "system"} viewBox={`${left - 2} ${shelf.top - 2} ${right - left + 4} ${shelf.bottom - shelf.top + 4}`} role="img" aria-label={summary(state, total)}>
      {shelf.frame && <Platform frame={shelf.frame} parts={parts} />}
      <Lines layout={layout} busy={busy} isNarrow={isNarrow} metrics={!read} />
      <g className="lines">
        {shelf.lines.map((curve) => (
          <path key={curvePath(curve)} className="reads" d={curvePath(curve)} />
        ))}
      </g>
      {!still && <Dots layout={layout} flights={flow.flights} boxOf={boxOf} />}
      <g className="arrow-labels">
        {isNarrow ? (
          <text x={layout.width / 2 + 68} y={(middleFrom.y + middleTo.y) / 2 + 5}>
            ↑ {number(load?.window.tops)} tokens/s
          </text>
        ) : (
          <>
            <text x={(middleFrom.x + middleTo.x) / 2} y={middleFrom.y - 12} textAnchor="middle">requests</text>
            <text x={(middleFrom.x + middleTo.x) / 2} y={middleFrom.y + 52} textAnchor="middle">tokens</text>
          </>
        )}
      </g>
      <Part
        box={layout.load}
        title={load ? (loadPart?.name ?? "Load generator") : "Clients"}
        lines={
          load
            ? [
                { label: "state", value: load.phase },
                { label: "conversations", value: number(load.conversations.active) },
                { label: "requests/s, 60 s", value: number(load.window.rps, 1) },
                ...(isNarrow ? [] : [{ label: "tokens/s, 60 s", value: number(load.window.tops) }]),
              ]
            : [{ label: "any OpenAI client", value: "" }]
        }
      />
      <Part
        box={layout.frontend}
        title={frontendPart?.name ?? "Frontend"}
        lines={[
          { label: "in flight", value: number(state.requests.in_flight) },
          { label: frontendPart?.detail ?? "OpenAI API", value: "" },
          ...(isNarrow ? [] : [{ label: "template, tokens,", value: "" }, { label: "block hashes", value: "" }]),
        ]}
      />
      <Part
        box={layout.router}
        title="Router"
        pulse="router"
        colour={looksAtCaches(router.mode) ? "var(--kv)" : "var(--rr)"}
        lines={[
          { label: "mode", value: modeName(router.mode) },
          { label: "decisions/s", value: total === null ? DASH : number(total, 1) },
          { label: "waiting for a slot", value: number(state.requests.queued) },
          { label: "decisions", value: number(flow.newest) },
          ...(isNarrow ? [] : lastLines(state.last_decision)),
        ]}
      >
        {!isNarrow && (
          <text className="events-label" x="206" y={layout.router.h - 14} textAnchor="end">
            ← KV events{events && `, ${events.name.split(",")[0]}`}
          </text>
        )}
      </Part>
      {state.workers.slice(0, shown).map((worker, index) => {
        const box = layout.workers[index];
        return box && <WorkerPart key={worker.id} box={box} worker={worker} rate={rateOf(worker.id)} />;
      })}
      {more > 0 && layout.workers[shown] && (
        <Part
          box={layout.workers[shown]}
          title={`${more} more workers`}
          lines={[{ label: "in flight", value: number(rest.reduce((sum, worker) => sum + worker.in_flight, 0)) }]}
        />
      )}
      <Part box={layout.console} title="Console" lines={[{ label: "this page", value: "" }, { label: "updated every second", value: "" }]} />
      {!isNarrow && workersPart && layout.workers[0] && (
        <text className="label" x={layout.workers[0].x} y={layout.workers[0].y - 10}>{partWords(workersPart)}</text>
      )}
      {shelf.boxes.map((placed) => (
        <ShelfPart key={`${placed.part.kind} ${placed.part.name}`} {...placed} />
      ))}
      {!read && <Part box={layout.metrics} title={isNarrow ? "Prometheus" : "Prometheus, Grafana"} lines={metricsLines(state, isNarrow)} />}
    </svg>
  );
}

/** Where the system runs, and on which nodes. */
function Platform({ frame, parts }: { frame: Box; parts: readonly StatePart[] }) {
  const platform = partOf(parts, "platform");
  const nodes = parts.filter(({ kind }) => kind === "nodes");
  return (
    <g className="platform">
      <rect x={frame.x} y={frame.y} width={frame.w} height={frame.h} rx="16" />
      {platform && (
        <text className="title" x={frame.x + 18} y={frame.y + 28}>
          {platform.name}
          {platform.detail !== null && <tspan className="label">{`  ${platform.detail}`}</tspan>}
        </text>
      )}
      {nodes.length > 0 && (
        <text className="label" x={frame.x + frame.w - 18} y={frame.y + 28} textAnchor="end">
          {nodes.map(partWords).join("   ")}
        </text>
      )}
    </g>
  );
}

function lastLines(decision: Decision | null) {
  if (!decision) return [];
  const held = decision.candidates.find((candidate) => candidate.worker === decision.winner)?.overlap_blocks;
  return [
    { label: "the last went to", value: workerName(decision.winner) },
    { label: "blocks there", value: `${number(held)} of ${number(decision.blocks)}` },
  ];
}

function metricsLines({ gpu }: State, isNarrow: boolean) {
  if (gpu.kind === "process") return [{ label: "can collect /metrics", value: "" }, ...(isNarrow ? [] : [{ label: "GPU cards: from the workers", value: "" }])];
  return [{ label: "GPU figures from it", value: gpu.error === null ? "" : "unavailable" }];
}

function summary(state: State, total: number | null): string {
  const workers = state.workers.map((worker) => `${workerName(worker.id)}: ${worker.in_flight} of ${worker.slots} in flight`).join(", ");
  return `The system as it runs. ${number(state.load?.conversations.active)} conversations, ${number(total, 1)} decisions per second, router mode ${modeName(state.router.mode)}, ${number(state.requests.queued)} waiting. ${workers}.`;
}

function Lines({ layout, busy, isNarrow, metrics }: { layout: ReturnType<typeof wide>; busy: boolean; isNarrow: boolean; /** Whether the box of metrics is drawn. */ metrics: boolean }) {
  const back: Curve = layout.toFrontend.map(({ x, y }) => (isNarrow ? { x: x + 120, y } : { x, y: y + 32 })).reverse() as Curve;
  return (
    <>
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0 0L8 4L0 8z" />
        </marker>
      </defs>
      <g className="lines">
        {[layout.toFrontend, layout.toRouter, ...layout.toWorker].map((curve) => (
          <path key={curvePath(curve)} d={curvePath(curve)} markerEnd="url(#arrow)" />
        ))}
        <path d={curvePath(back)} markerEnd="url(#arrow)" />
        {layout.events.map((curve) => (
          <path key={curvePath(curve)} className={busy ? "events busy" : "events"} d={curvePath(curve)} />
        ))}
        {!isNarrow && metrics && <path className="reads" d={curvePath(layout.toMetrics)} />}
        {!isNarrow && <path className="reads" d={curvePath(layout.toConsole)} />}
      </g>
    </>
  );
}
