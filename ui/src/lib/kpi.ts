/** The six figures at a glance, and when each of them does not exist. */
import type { BaselineCell, State } from "../api/types";
import { failureKinds } from "./failure";
import { DASH, number, percent } from "./format";

export type Kpi = {
  label: string;
  value: string;
  unit: string;
  /** What it measures. */
  hint: string;
  alarm: boolean;
  detail: string;
  /** Round robin's at this level, where there is a baseline. */
  beside: string;
};

/** `rr` is round robin's cell at the level of now. */
export function kpis(state: State | null, rr: BaselineCell | null = null): Kpi[] {
  const load = state?.load ?? null;
  const window = load?.window;
  const runs = load !== null && load.phase !== "stopped" && load.phase !== "waiting";
  // Rates: of a running load, or of a minute in which something was measured.
  const rated = window !== undefined && (runs || window.requests > 0);
  // Totals: since load was last started.
  const counted = load !== null && (runs || load.totals.requests > 0);
  const failures = counted ? load.totals.failures : 0;
  const card = (label: string, unit: string, value: string, hint: string, more: Partial<Kpi> = {}): Kpi => ({ label, unit, value, hint, alarm: false, detail: "", beside: "", ...more });
  return [
    card("RPS", "req/s", rated ? number(window.rps, 2) : DASH, "Requests that ended in the last minute, per second.", { beside: rr ? number(rr.rps, 2) : "" }),
    card("Requests", "since start", counted ? number(load.totals.requests) : DASH, "Requests that ended since load was last started, including failures."),
    card("TOPS", "tokens/s", rated ? number(window.tops) : DASH, "Output tokens per second over the last minute, all workers together.", { beside: rr ? number(rr.tops) : "" }),
    card("KV Cache Hit", "of prompts", percent(window?.cached_pct), "Share of prompt tokens that workers had in their KV cache, in requests that ended in the last minute.", {
      beside: rr && rr.kv_hit_pct !== null ? percent(rr.kv_hit_pct) : "",
    }),
    card("Queued", "waiting", state ? number(state.requests.queued) : DASH, "Requests waiting for a worker with a free slot."),
    card("Errors", "since start", counted ? number(failures) : DASH, "Requests that failed since load was last started.", {
      alarm: failures > 0,
      detail: counted ? failureKinds(load.totals.failures_by_kind) : "",
    }),
  ];
}
