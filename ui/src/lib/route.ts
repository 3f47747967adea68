/** Which page the address names. View state lives in the URL, so that it can be shared. */
import { useSyncExternalStore } from "preact/compat";

export type Route =
  | { page: "dashboard" }
  | { page: "conversations" }
  | { page: "conversation"; id: string }
  | { page: "architecture" }
  | { page: "routing" }
  | { page: "features" }
  | { page: "story" }
  | { page: "grafana"; uid: string | null };

export const TABS: ReadonlyArray<{ page: Route["page"]; label: string; href: string }> = [
  { page: "dashboard", label: "Dashboard", href: "#/" },
  { page: "story", label: "Story", href: "#/story" },
  { page: "conversations", label: "Conversations", href: "#/conversations" },
  { page: "architecture", label: "Demo Architecture", href: "#/architecture" },
  { page: "routing", label: "KV Routing", href: "#/routing" },
  { page: "features", label: "Features", href: "#/features" },
  { page: "grafana", label: "Grafana View", href: "#/grafana" },
];

/** An address typed by hand may hold a stray `%`. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A page without a case here opens the dashboard; a test compares it with the tabs. */
export function parseRoute(hash: string): Route {
  const [path = ""] = hash.replace(/^#?\/?/, "").split("?");
  const [first, second] = path.split("/");
  switch (first) {
    case "conversations":
      return second ? { page: "conversation", id: decoded(second) } : { page: "conversations" };
    case "grafana":
      return { page: "grafana", uid: second ? decoded(second) : null };
    case "architecture":
    case "routing":
    case "features":
    case "story":
      return { page: first };
    default:
      return { page: "dashboard" };
  }
}

const subscribe = (listener: () => void) => {
  window.addEventListener("hashchange", listener);
  return () => window.removeEventListener("hashchange", listener);
};

export function useRoute(): Route {
  return parseRoute(useSyncExternalStore(subscribe, () => window.location.hash));
}

/** What a page keeps after `?` in the hash, such as `#/conversations?status=active`. */
export function parseQuery(hash: string): URLSearchParams {
  const start = hash.indexOf("?");
  return new URLSearchParams(start < 0 ? "" : hash.slice(start + 1));
}

/** The same page with other values; `null` takes one away. */
export function withQuery(hash: string, change: Record<string, string | null>): string {
  const query = parseQuery(hash);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) query.delete(name);
    else query.set(name, value);
  }
  const [path = ""] = hash.split("?");
  const text = query.toString();
  return `${path || "#/"}${text ? `?${text}` : ""}`;
}

/** The page's own values and how to change them without a new entry in the browser's history. */
export function useQuery(): [URLSearchParams, (change: Record<string, string | null>) => void] {
  const hash = useSyncExternalStore(subscribe, () => window.location.hash);
  const change = (values: Record<string, string | null>) => {
    window.history.replaceState(null, "", withQuery(window.location.hash, values));
    window.dispatchEvent(new Event("hashchange"));
  };
  return [parseQuery(hash), change];
}
