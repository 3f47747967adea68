/** What happened over the last minutes: latencies, load of each worker, cache hits. */
import { useMemo } from "preact/compat";
import type { HistoryPoint, State } from "../../api/types";
import type { Mark } from "../../lib/chart";
import { DASH, ms, number, percent } from "../../lib/format";
import { columns, latest, modeChanges } from "../../lib/history";
import { modeColour, modeName } from "../../lib/mode";
import { workerColour, workerName } from "../../lib/workers";
import { TimeChart } from "../TimeChart";

const p50 = { label: "p50", colour: "var(--muted)" };
const p95 = { label: "p95", colour: "var(--accent)" };
const whole = (value: number | null | undefined) => (value === null || value === undefined ? DASH : number(value));

type Pick = (point: HistoryPoint) => number | null;
const TTFT: Pick[] = [(point) => point.ttft_ms_p50, (point) => point.ttft_ms_p95];
const TPOT: Pick[] = [(point) => point.tpot_ms_p50, (point) => point.tpot_ms_p95];
const HIT: Pick[] = [(point) => point.cached_pct];
const inFlight = (worker: string): Pick => (point) => point.in_flight.find((each) => each.worker === worker)?.in_flight ?? null;

export function TimeCharts({ state, points, minutes }: { state: State; points: readonly HistoryPoint[]; minutes: number }) {
  const ids = state.workers.map((worker) => worker.id).join(" ");
  const { ttft, tpot, load, hit, marks } = useMemo(() => {
    const shown = latest(points, minutes * 60_000);
    const workers = ids === "" ? [] : ids.split(" ");
    const changes = modeChanges(shown).map((change): Mark => ({ at: change.at_ms / 1000, label: modeName(change.to), colour: modeColour(change.to) }));
    return { ttft: columns(shown, TTFT), tpot: columns(shown, TPOT), load: columns(shown, workers.map(inFlight)), hit: columns(shown, HIT), marks: changes };
  }, [points, minutes, ids]);
  const span = minutes * 60;
  const slo = (value: number) => ({ value, label: `SLO p95 < ${value} ms` });
  const { slos, workers } = state;
  return (
    <>
      <TimeChart title="TTFT" lines={[p50, p95]} {...ttft} format={ms} overlay={{ span, marks, top: 100, objective: slo(slos.ttft_p95_ms) }} />
      <TimeChart title="TPOT" lines={[p50, p95]} {...tpot} format={ms} overlay={{ span, marks, top: 10, objective: slo(slos.tpot_p95_ms) }} />
      <TimeChart
        title="In flight"
        lines={workers.map((worker) => ({ label: workerName(worker.id), colour: workerColour(worker.id) }))}
        {...load}
        format={whole}
        digits={2}
        overlay={{ span, marks, top: 8, objective: null }}
      />
      <TimeChart title="KV cache hit" lines={[{ label: "of prompt tokens", colour: "var(--kv)" }]} {...hit} format={percent} overlay={{ span, marks, top: 100, limit: 105, objective: null }} />
    </>
  );
}
