/** Where the API is, as far as a page can know. */
import type { State } from "../api/types";

const LOCAL = new Set(["127.0.0.1", "localhost", "[::1]", "0.0.0.0"]);

/**
 * The load generator's target without its `/v1`. A target on the server's own machine is, for a
 * viewer on another one, at the host that the page came from. Without a load generator: the
 * page's own origin, where the console hands some of it on.
 */
export function apiBase(state: Pick<State, "load">, page: { origin: string; hostname: string }): string {
  const target = state.load?.target.url;
  if (!target || !URL.canParse(target)) return page.origin;
  const url = new URL(target);
  if (LOCAL.has(url.hostname) && page.hostname !== "" && !LOCAL.has(page.hostname)) url.hostname = page.hostname;
  return `${url.origin}${url.pathname.replace(/\/(v1\/?)?$/, "")}`;
}
