/** The time that a dashboard shows: it moves on by itself while somebody looks. */
import { useEffect, useRef, useState } from "preact/compat";
import { useFeed } from "../../api/live";
import { type Window, windowOf } from "../../lib/grafana/variables";

/** Not more often than Prometheus learns something new, nor so seldom that it looks stuck. */
export const refreshOf = (askedS: number | null): number => Math.min(10, Math.max(5, askedS ?? 10));

/** `null` until the server has said what time it is: Prometheus is nearer to its clock than to this one. */
export function useWindow(rangeS: number, refreshS: number): Window | null {
  const { state, receivedMs } = useFeed();
  const ahead = useRef(0);
  if (state && receivedMs !== null) ahead.current = state.at_ms - receivedMs;
  const known = state !== null;
  const [shown, setShown] = useState<Window | null>(null);
  useEffect(() => {
    if (!known) return;
    const turn = () => {
      if (!document.hidden) setShown(windowOf((Date.now() + ahead.current) / 1000, rangeS));
    };
    turn();
    const timer = setInterval(turn, refreshS * 1000);
    document.addEventListener("visibilitychange", turn);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", turn);
    };
  }, [known, rangeS, refreshS]);
  return shown;
}
