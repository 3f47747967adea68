/** Whether a media query holds, now and when it changes. */
import { useSyncExternalStore } from "preact/compat";

export function useMedia(query: string): boolean {
  return useSyncExternalStore(
    (listener) => {
      const list = window.matchMedia(query);
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    () => window.matchMedia(query).matches,
  );
}

export const REDUCED_MOTION = "(prefers-reduced-motion: reduce)";
