/**
 * Where things are, as far as a page can know.
 *
 * The console may lie below a path of a gateway, such as /homing/, so nothing begins at the
 * root of the host: every address is relative to the page's own folder.
 */
import type { State } from "../api/types";

const LOCAL = new Set(["127.0.0.1", "localhost", "[::1]", "0.0.0.0"]);

/** The folder of the page at `href`, without its last slash. */
export function pageBase(href: string): string {
  const { origin, pathname } = new URL(href);
  return origin + pathname.replace(/\/[^/]*$/, "");
}

/** A path of the server that the page came from. */
export const endpoint = (path: string, href: string): string => `${pageBase(href)}/${path}`;

/** A dashboard in a real Grafana, over the same time as here. */
export function grafanaAddress(base: string, uid: string, range: string): string {
  return `${base.replace(/\/+$/, "")}/d/${encodeURIComponent(uid)}?from=now-${range}&to=now`;
}

/** An endpoint as a WebSocket: `wss` where the page came over HTTPS. */
export const socketAddress = (path: string, href: string): string => endpoint(path, href).replace(/^http/, "ws");

/**
 * The load generator's target without its `/v1`. A target on the server's own machine is, for a
 * viewer on another one, at the host that the page came from. Without a load generator: the
 * page's own folder, where the console hands some of it on.
 */
export function apiBase(state: Pick<State, "load">, page: { href: string; hostname: string }): string {
  const target = state.load?.target.url;
  if (!target || !URL.canParse(target)) return pageBase(page.href);
  const url = new URL(target);
  if (LOCAL.has(url.hostname) && page.hostname !== "" && !LOCAL.has(page.hostname)) url.hostname = page.hostname;
  return `${url.origin}${url.pathname.replace(/\/(v1\/?)?$/, "")}`;
}
