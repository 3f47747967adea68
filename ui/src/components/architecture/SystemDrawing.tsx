/** The whole system as it runs: boxes with figures, lines, and a dot for every routed request. */
import type { Decision, State } from "../../api/types";
import { type Curve, curvePath, narrow, wide, workerBoxes } from "../../lib/drawing";
import { DASH, number } from "../../lib/format";
import { REDUCED_MOTION, useMedia } from "../../lib/media";
import { looksAtCaches, modeName } from "../../lib/mode";
import { Dots } from "./Dots";
import { Part, WorkerPart } from "./Parts";
import { useFlow } from "./useFlow";
import "./SystemDrawing.css";

export function SystemDrawing({ state }: { state: State }) {
  const flow = useFlow();
  const isNarrow = useMedia("(max-width: 900px)");
  const still = useMedia(REDUCED_MOTION);
  const { shown, more } = workerBoxes(state.workers.length);
  const layout = (isNarrow ? narrow : wide)(shown + (more > 0 ? 1 : 0));
  const positions = new Map(state.workers.map((worker, index) => [worker.id, Math.min(index, shown + (more > 0 ? 0 : -1))]));
  const boxOf = (worker: number) => positions.get(worker) ?? -1;
  const total = flow.rates && [...flow.rates.values()].reduce((sum, rate) => sum + rate, 0);
  const rest = state.workers.slice(shown);
  const rateOf = (worker: number) => flow.rates && (flow.rates.get(worker) ?? 0);
  const busy = (state.requests.in_flight ?? 0) > 0;
  const { load, router } = state;
  const [middleFrom, middleTo] = [layout.toFrontend[0], layout.toFrontend[3]];
  return (
    <svg className={isNarrow ? "system narrow" : "system"} viewBox={`-2 -2 ${layout.width + 4} ${layout.height + 4}`} role="img" aria-label={summary(state, total)}>
      <Lines layout={layout} busy={busy} isNarrow={isNarrow} />
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
        title={load ? "Load generator" : "Clients"}
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
        title="Frontend"
        lines={[
          { label: "in flight", value: number(state.requests.in_flight) },
          { label: "OpenAI API", value: "" },
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
            ← KV events
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
      <Part box={layout.metrics} title={isNarrow ? "Prometheus" : "Prometheus, Grafana"} lines={metricsLines(state, isNarrow)} />
    </svg>
  );
}

function lastLines(decision: Decision | null) {
  if (!decision) return [];
  const held = decision.candidates.find((candidate) => candidate.worker === decision.winner)?.overlap_blocks;
  return [
    { label: "the last went to", value: `worker ${decision.winner}` },
    { label: "blocks there", value: `${number(held)} of ${number(decision.blocks)}` },
  ];
}

function metricsLines({ gpu }: State, isNarrow: boolean) {
  if (gpu.kind === "process") return [{ label: "may read /metrics", value: "" }, ...(isNarrow ? [] : [{ label: "GPU figures here: from the process", value: "" }])];
  return [{ label: "GPU figures from it", value: gpu.error === null ? "" : "unavailable" }];
}

function summary(state: State, total: number | null): string {
  const workers = state.workers.map((worker) => `worker ${worker.id}: ${worker.in_flight} of ${worker.slots} in flight`).join(", ");
  return `The system as it runs. ${number(state.load?.conversations.active)} conversations, ${number(total, 1)} decisions per second, router mode ${modeName(state.router.mode)}, ${number(state.requests.queued)} waiting. ${workers}.`;
}

function Lines({ layout, busy, isNarrow }: { layout: ReturnType<typeof wide>; busy: boolean; isNarrow: boolean }) {
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
        {!isNarrow && <path className="reads" d={curvePath(layout.toMetrics)} />}
        {!isNarrow && <path className="reads" d={curvePath(layout.toConsole)} />}
      </g>
    </>
  );
}
