/** View state in the address's query, so that a view can be shared and survives a reload. */
import { useSyncExternalStore } from "preact/compat";

const CHANGED = "homing-search";

export function setSearch(name: string, value: string, usual: string): void {
  const url = new URL(window.location.href);
  if (value === usual) url.searchParams.delete(name);
  else url.searchParams.set(name, value);
  window.history.replaceState(window.history.state, "", url);
  window.dispatchEvent(new Event(CHANGED));
}

const subscribe = (listener: () => void) => {
  window.addEventListener(CHANGED, listener);
  window.addEventListener("popstate", listener);
  return () => {
    window.removeEventListener(CHANGED, listener);
    window.removeEventListener("popstate", listener);
  };
};

/** One of `choices`, the first of which is usual and left out of the address. */
export function useSearch<T extends string>(name: string, choices: readonly [T, ...T[]]): [T, (value: T) => void] {
  const [usual] = choices;
  const asked = useSyncExternalStore(subscribe, () => new URLSearchParams(window.location.search).get(name));
  const value = choices.find((choice) => choice === asked) ?? usual;
  return [value, (next) => setSearch(name, next, usual)];
}
