/** Asks for something again and again while a component is shown. */
import { useEffect, useRef, useState } from "preact/compat";

export type Polled<T> = { value: T | null; error: string | null };

/**
 * The answer of `ask`, renewed every `everyMs` (once if `null`) and whenever `key` changes. An
 * error keeps the last answer. A page in the background asks once and then nothing.
 */
export function usePoll<T>(ask: (signal: AbortSignal) => Promise<T>, key: string, everyMs: number | null): Polled<T> {
  const [polled, setPolled] = useState<Polled<T> & { key: string }>({ value: null, error: null, key });
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asked = false;
    const turn = async () => {
      if (!asked || !document.hidden) {
        asked = true;
        try {
          const value = await latest.current(abort.signal);
          if (!abort.signal.aborted) setPolled({ value, error: null, key });
        } catch (cause) {
          if (abort.signal.aborted) return;
          const error = cause instanceof Error ? cause.message : String(cause);
          setPolled((before) => ({ value: before.key === key ? before.value : null, error, key }));
        }
      }
      if (everyMs !== null && !abort.signal.aborted) timer = setTimeout(turn, everyMs);
    };
    void turn();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, everyMs]);
  return polled.key === key ? polled : { value: null, error: null };
}
