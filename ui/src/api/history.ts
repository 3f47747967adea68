/** The last minutes for charts: fetched once per connection, continued from the feed. */
import { useEffect, useState } from "preact/compat";
import { merged, pointOf, withPoint } from "../lib/history";
import { api } from "./client";
import { useFeed } from "./live";
import type { HistoryPoint } from "./types";

export function useHistory(): readonly HistoryPoint[] {
  const { connection, state } = useFeed();
  const [points, setPoints] = useState<readonly HistoryPoint[]>([]);
  const open = connection === "open";
  useEffect(() => {
    if (!open) return;
    const abort = new AbortController();
    api.history(abort.signal).then(
      (history) => setPoints((seen) => merged(seen, history.points)),
      // Without it, charts begin with this page.
      () => undefined,
    );
    return () => abort.abort();
  }, [open]);
  useEffect(() => {
    if (open && state) setPoints((seen) => withPoint(seen, pointOf(state)));
  }, [open, state]);
  return points;
}
