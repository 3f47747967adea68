/** Pages that are loaded when they are shown, each from a file of its own. */
import { type ComponentType, lazy } from "preact/compat";
import { api } from "../api/client";

const PAUSE_MS = 2000;
/** When the console was last loaded anew, kept in the tab. */
const RELOADED_KEY = "homing-reloaded";
/** Sooner than this it is not done again: it did not help. */
const RELOADS_APART_MS = 60_000;

const loads: Array<() => Promise<unknown>> = [];

/**
 * A server that is away is waited for. One that answers, and yet the file cannot be loaded, may have
 * other files since it was restarted: then the whole console is loaded anew. If that was done just
 * now, it does not help, and the failure is the caller's.
 */
export async function patiently<T>(load: () => Promise<T>, isThere: () => Promise<boolean>, reload: () => boolean): Promise<T> {
  for (;;) {
    try {
      return await load();
    } catch (cause) {
      if (await isThere()) {
        if (!reload()) throw cause;
        // Until the browser has left this page.
        return await new Promise<never>(() => {});
      }
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  }
}

/** Loads the console anew, unless that was done just now; whether it does. */
function reloadOnce(): boolean {
  const last = Number(sessionStorage.getItem(RELOADED_KEY));
  if (Date.now() - last < RELOADS_APART_MS) return false;
  sessionStorage.setItem(RELOADED_KEY, String(Date.now()));
  window.location.reload();
  return true;
}

/** `instead` is shown if the page cannot be loaded. */
export function later<Props>(load: () => Promise<ComponentType<Props>>, instead: ComponentType) {
  loads.push(load);
  return lazy(async () => ({ default: await patiently(load, api.isThere, reloadOnce).catch(() => instead as ComponentType<Props>) }));
}

/** Loads them all, so that they are there when somebody turns to them. What fails is asked for again when it is shown. */
export function loadAhead(): void {
  for (const load of loads) void load().catch(() => {});
}
