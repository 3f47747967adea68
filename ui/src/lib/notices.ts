/** Refusals and errors of the viewer's own actions, from wherever, to be shown under the header. */
import { useSyncExternalStore } from "preact/compat";

export type Notice = { id: number; text: string };

/** More would push the page away. */
const SHOWN = 3;

let notices: readonly Notice[] = [];
let next = 1;
const listeners = new Set<() => void>();

function publish(changed: readonly Notice[]): void {
  notices = changed;
  for (const listener of listeners) listener();
}

/** The same words twice are one notice. */
export function report(text: string): void {
  publish([...notices.filter((notice) => notice.text !== text), { id: next++, text }].slice(-SHOWN));
}

export function dismiss(id: number): void {
  publish(notices.filter((notice) => notice.id !== id));
}

/** For an action's `catch`. */
export const reportCause = (cause: unknown): void => report(cause instanceof Error ? cause.message : String(cause));

export function useNotices(): readonly Notice[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => notices,
  );
}
