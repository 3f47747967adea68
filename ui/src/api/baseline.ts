/** The baseline: fetched when the server says that there is one, and again when it is another. */
import { useEffect, useState } from "preact/compat";
import { api } from "./client";
import type { Baseline, BaselineStatus } from "./types";

const RETRY_MS = 5_000;

export type FetchedBaseline = { baseline: Baseline | null; error: string | null };

export function useBaseline(status: BaselineStatus | undefined): FetchedBaseline {
  const run = status?.state === "ready" ? status.run_id : null;
  const [fetched, setFetched] = useState<FetchedBaseline & { run: string | null }>({ baseline: null, error: null, run: null });
  useEffect(() => {
    if (run === null) return;
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const fetchIt = () =>
      api.baseline(abort.signal).then(
        (baseline) => setFetched({ baseline, error: null, run }),
        (cause: unknown) => {
          if (abort.signal.aborted) return;
          setFetched({ baseline: null, error: cause instanceof Error ? cause.message : String(cause), run });
          timer = setTimeout(fetchIt, RETRY_MS);
        },
      );
    void fetchIt();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [run]);
  return run !== null && fetched.run === run ? fetched : { baseline: null, error: null };
}
