/**
 * Booth mode, a page that is read at three metres: what the address asks for, the order of the
 * pages and what a key does. Pure; `components/booth` waits and listens.
 */

export type Booth = {
  /** Seconds for which a page stays; 0 for as long as nobody presses a key. */
  seconds: number;
  /** Tells the story by itself. */
  attract: boolean;
  /** What the QR code leads to. */
  qr: string | null;
};

export const USUAL_SECONDS = 30;
/** Shorter than this, nothing can be read. */
const LEAST_SECONDS = 5;

const isWebAddress = (text: string | null): text is string => text !== null && URL.canParse(text) && /^https?:$/.test(new URL(text).protocol);

/** What `?booth`, `?booth=20`, `&attract` and `&qr=ADDRESS` say; `null` without `booth`. */
export function readBooth(search: string): Booth | null {
  const asked = new URLSearchParams(search);
  const text = asked.get("booth");
  if (text === null) return null;
  const seconds = text.trim() === "" ? USUAL_SECONDS : Number(text);
  const qr = asked.get("qr");
  return {
    seconds: seconds === 0 ? 0 : Math.max(LEAST_SECONDS, Number.isFinite(seconds) ? seconds : USUAL_SECONDS),
    attract: asked.has("attract"),
    qr: isWebAddress(qr) ? qr : null,
  };
}

/** The page before or after `page`, around the corner. One that is not in the list leads to the first. */
export function neighbour<T>(pages: readonly T[], page: T, step: 1 | -1): T | undefined {
  const index = pages.indexOf(page);
  return index < 0 ? pages[0] : pages[(index + step + pages.length) % pages.length];
}

export type KeyAction = "next" | "previous" | "pause";
const KEYS: Readonly<Record<string, KeyAction>> = { ArrowRight: "next", ArrowLeft: "previous", PageDown: "next", PageUp: "previous", " ": "pause" };

/** What a key does, unless whatever has the focus needs it itself. */
export function keyAction(event: Pick<KeyboardEvent, "key" | "ctrlKey" | "metaKey" | "altKey" | "target">): KeyAction | null {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  if (event.target instanceof Element && event.target.closest("input, select, textarea, button, dialog")) return null;
  return KEYS[event.key] ?? null;
}
