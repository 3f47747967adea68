/** The only place that fetches: paths are relative to the page, which may lie below a path of a gateway. */
import type { ApiError, Baseline, Conversation, ConversationList, ConversationStatus, DashboardList, Decision, History, RouterState, Settings, Snapshot, State } from "./types";

export type LoadAction = "start" | "pause" | "resume" | "drain" | "stop";
export type ConversationSort = "newest" | "oldest" | "longest" | "turns";
export type ConversationQuery = { limit?: number; status?: ConversationStatus | null; sort?: ConversationSort };
export type RouterChange = { mode?: string; overlap_score_weight?: number; router_temperature?: number };

/** A refusal, in the server's words. */
export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
    /** Such as `no_baseline`. */
    readonly code: string | null = null,
    /** The field to blame. */
    readonly field: string | null = null,
  ) {
    super(message);
  }
}

const TOKEN_KEY = "homing-control-token";

/** Kept for this tab alone: a token is not to outlive the visit. */
export const controlToken = {
  get: (): string | null => sessionStorage.getItem(TOKEN_KEY),
  set: (token: string): void => sessionStorage.setItem(TOKEN_KEY, token),
  clear: (): void => sessionStorage.removeItem(TOKEN_KEY),
};

async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  const headers: Record<string, string> = {};
  const token = controlToken.get();
  if (token) headers["authorization"] = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  // A change goes through even if it is the page's last act.
  const init: RequestInit = { method, headers, keepalive: method !== "GET" };
  if (body !== undefined) init.body = JSON.stringify(body);
  if (signal) init.signal = signal;
  const response = await fetch(path, init).catch((cause: unknown) => {
    if (signal?.aborted) throw cause;
    throw new Refused("The server is unreachable.", 0);
  });
  if (!response.ok) throw await refusal(response);
  return (await response.json()) as T;
}

async function refusal(response: Response): Promise<Refused> {
  const body = (await response.json().catch(() => null)) as ApiError | null;
  const error = body?.error;
  return new Refused(error?.message ?? `The server answered ${response.status}.`, response.status, error?.code ?? null, error?.param ?? null);
}

function conversationQuery({ limit, status, sort }: ConversationQuery): string {
  const query = new URLSearchParams();
  if (limit !== undefined) query.set("limit", String(limit));
  if (status) query.set("status", status);
  if (sort) query.set("sort", sort);
  const text = query.toString();
  return text ? `?${text}` : "";
}

const query = (values: Record<string, string | number>): string => new URLSearchParams(Object.entries(values).map(([name, value]) => [name, String(value)])).toString();

export const api = {
  /** Others take the place of all simulated workers. */
  replaceWorkers: (profile: string) => call<unknown>("PUT", "workers", { profile }),
  /** Whether the server answers. */
  isThere: (): Promise<boolean> => call("GET", "api/state").then(() => true, () => false),
  state: (signal?: AbortSignal) => call<State>("GET", "api/state", undefined, signal),
  history: (signal?: AbortSignal) => call<History>("GET", "api/history", undefined, signal),
  baseline: (signal?: AbortSignal) => call<Baseline>("GET", "api/baseline", undefined, signal),
  conversations: (query: ConversationQuery, signal?: AbortSignal) =>
    call<ConversationList>("GET", `api/conversations${conversationQuery(query)}`, undefined, signal),
  conversation: (id: string, signal?: AbortSignal) =>
    call<Conversation>("GET", `api/conversations/${encodeURIComponent(id)}`, undefined, signal),
  decisions: (limit: number, signal?: AbortSignal) =>
    call<{ decisions: Decision[] }>("GET", `decisions?limit=${limit}`, undefined, signal),
  dashboards: (signal?: AbortSignal) => call<DashboardList>("GET", "api/dashboards", undefined, signal),
  /** Grafana's own JSON, of which nothing is promised here. */
  dashboard: (uid: string, signal?: AbortSignal) => call<unknown>("GET", `api/dashboards/${encodeURIComponent(uid)}`, undefined, signal),
  /** Prometheus' own JSON; times in seconds. */
  query: (expr: string, time: number, signal?: AbortSignal) => call<unknown>("GET", `api/prometheus/query?${query({ query: expr, time })}`, undefined, signal),
  queryRange: (expr: string, { start, end, step }: { start: number; end: number; step: number }, signal?: AbortSignal) =>
    call<unknown>("GET", `api/prometheus/query_range?${query({ query: expr, start, end, step })}`, undefined, signal),
  load: (action: LoadAction) => call<Snapshot>("POST", `api/load/${action}`),
  settings: (change: Partial<Settings>) => call<Snapshot>("PATCH", "api/load/settings", change),
  router: (change: RouterChange) => call<RouterState>("PUT", "api/router", change),
};
