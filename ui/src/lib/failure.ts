/** Failures of the load generator, as messages that say where to look. */
import type { Snapshot } from "../api/types";

const LEADS: Record<string, string> = {
  connect: "Load cannot reach its target",
  timeout: "Answers take too long",
  stalled: "Answers stall",
  status: "The target rejects requests",
  broken_stream: "Answers are interrupted",
  server_error: "The target reports errors within its answers",
  no_usage: "Answers have no token count and cannot be measured",
};

const SHORT: Record<string, string> = {
  connect: "no connection",
  timeout: "timeout",
  stalled: "stalled",
  status: "refused",
  broken_stream: "interrupted",
  server_error: "server error",
  no_usage: "no token count",
};

/** In a list of counts. */
export const failureName = (kind: string): string => SHORT[kind] ?? kind;

/** Seconds for which a failure stays news. */
export const RECENT_S = 15;

export type FailureNotice = { kind: string; text: string; /** Failures in the window. */ count: number };

/** What to warn of, if it is recent or goes on. */
export function failureNotice(load: Snapshot | null): FailureNotice | null {
  const last = load?.last_failure;
  if (!load || !last) return null;
  const goesOn = load.phase !== "stopped" && load.phase !== "waiting" && load.window.failures > 1;
  if (last.ago_s >= RECENT_S && !goesOn) return null;
  const { kind, message } = last.failure;
  const words = message.trim().replace(/\.$/, "");
  const retried = kind === "connect" && load.phase === "running" ? " Retrying every second." : "";
  return { kind, text: `${LEADS[kind] ?? "Requests fail"}: ${words}.${retried}`, count: load.window.failures };
}

/** Such as `3 timeout, 1 refused`, most first; empty without failures. */
export function failureKinds(byKind: { [kind in string]: number }): string {
  return Object.entries(byKind)
    .filter(([, count]) => count > 0)
    .sort((one, other) => other[1] - one[1] || one[0].localeCompare(other[0]))
    .map(([kind, count]) => `${count} ${failureName(kind)}`)
    .join(", ");
}
