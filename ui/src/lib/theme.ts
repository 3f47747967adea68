/** Dark or light: what the viewer chose here, what `?theme=` says, or what the system prefers. */

export type Theme = "dark" | "light";

const KEY = "homing-theme";
const isTheme = (value: string | null): value is Theme => value === "dark" || value === "light";

export function preferredTheme(): Theme {
  const asked = new URLSearchParams(window.location.search).get("theme");
  if (isTheme(asked)) return asked;
  const kept = localStorage.getItem(KEY);
  if (isTheme(kept)) return kept;
  return window.matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
}

/** Charts are painted on a canvas, so they listen to this event to repaint. */
export const THEME_EVENT = "homing-theme";

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  window.dispatchEvent(new Event(THEME_EVENT));
}

export function chooseTheme(theme: Theme): void {
  localStorage.setItem(KEY, theme);
  applyTheme(theme);
}
