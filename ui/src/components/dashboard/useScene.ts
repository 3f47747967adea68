/** What comparisons are drawn from; remembers what changed while the page was open. */
import { useRef } from "preact/compat";
import type { Baseline, HistoryPoint, State } from "../../api/types";
import type { Scene } from "../../lib/comparable";
import { type Watch, watch } from "../../lib/disturbance";

export function useScene(state: State | null, points: readonly HistoryPoint[], baseline: Baseline | null): Scene | null {
  const seen = useRef<Watch | null>(null);
  if (!state) return null;
  seen.current = watch(seen.current, state);
  return { state, points, baseline, watch: seen.current };
}
