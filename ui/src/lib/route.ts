/** Which page the address names. View state lives in the URL, so that it can be shared. */
import { useSyncExternalStore } from "react";

export type Route =
  | { page: "dashboard" }
  | { page: "conversations" }
  | { page: "conversation"; id: string }
  | { page: "architecture" }
  | { page: "routing" }
  | { page: "features" };

export const TABS: ReadonlyArray<{ page: Route["page"]; label: string; href: string }> = [
  { page: "dashboard", label: "Dashboard", href: "#/" },
  { page: "conversations", label: "Conversations", href: "#/conversations" },
  { page: "architecture", label: "Demo Architecture", href: "#/architecture" },
  { page: "routing", label: "KV Routing", href: "#/routing" },
  { page: "features", label: "Features", href: "#/features" },
];

export function parseRoute(hash: string): Route {
  const [first, second] = hash.replace(/^#?\/?/, "").split("/");
  switch (first) {
    case "conversations":
      return second ? { page: "conversation", id: decodeURIComponent(second) } : { page: "conversations" };
    case "architecture":
    case "routing":
    case "features":
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

/** Large type for a screen that is seen from afar: `?booth`. */
export const isBooth = () => new URLSearchParams(window.location.search).has("booth");
