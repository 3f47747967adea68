/**
 * A setting that the viewer changes and the server confirms.
 *
 * What was wished is shown at once and sent after a rest, so that a slider sends one request
 * and not twenty. It holds until the server says the same, refuses, or has had its time: then
 * the server's value shows again, no matter who set it.
 */
import { useEffect, useRef, useState } from "preact/compat";

/** How long the server may take to show what it accepted. */
export const PATIENCE_MS = 2_500;

type Wish<T> = { value: T; accepted: boolean };

export function useWish<T>(actual: T, send: (value: T) => Promise<unknown>, restMs: number, onError: (message: string) => void): [T, (value: T) => void] {
  const [wish, setWish] = useState<Wish<T> | null>(null);
  const latest = useRef({ send, onError });
  latest.current = { send, onError };
  useEffect(() => {
    if (!wish) return;
    if (wish.accepted) {
      if (wish.value === actual) {
        setWish(null);
        return;
      }
      const patience = setTimeout(() => setWish(null), PATIENCE_MS);
      return () => clearTimeout(patience);
    }
    return undefined;
  }, [wish, actual]);
  useEffect(() => {
    if (!wish || wish.accepted) return;
    let current = true;
    const rest = setTimeout(() => {
      latest.current.send(wish.value).then(
        () => current && setWish({ value: wish.value, accepted: true }),
        (cause: unknown) => {
          latest.current.onError(cause instanceof Error ? cause.message : String(cause));
          if (current) setWish(null);
        },
      );
    }, restMs);
    return () => {
      current = false;
      clearTimeout(rest);
    };
  }, [wish, restMs]);
  return [wish ? wish.value : actual, (value) => setWish({ value, accepted: false })];
}
