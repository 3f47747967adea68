/** Which of the header's buttons may be pressed: the rules, apart from how they look. */
import type { Connection } from "../api/feed";
import type { LoadAction } from "../api/client";
import type { LoadPlace, Phase, State } from "../api/types";

export type Button = { action: LoadAction; enabled: boolean; /** Why not, for a title. */ why: string | null };
export type LoadControls = {
  start: Button;
  stop: Button;
  /** Pause while load runs, resume while it is paused. */
  pause: Button;
};

/** Why nobody here can control anything; `null` if they can. */
export function obstacle(connection: Connection, state: State | null): string | null {
  if (connection !== "open" || !state) return "Not connected to the server.";
  return state.control.granted ? null : "This view is read-only.";
}

/** Why the load generator cannot be controlled, if it runs elsewhere and does not answer. */
export function unreachable(place: LoadPlace | null): string | null {
  if (place?.kind !== "elsewhere" || place.error === null) return null;
  return `The load generator at ${place.url} is unreachable: ${place.error.trim().replace(/\.$/, "")}.`;
}

/** When load begins, where it has not: ends a sentence about something that is not there yet. */
export function whenLoadBegins(phase: Phase | undefined): string {
  if (phase === "waiting") return ": load begins as soon as the workers are ready.";
  return phase === "stopped" ? ": press Start." : ".";
}

/** `null` where no load generator runs. */
export function loadControls(connection: Connection, state: State | null): LoadControls | null {
  const away = unreachable(state?.load_at ?? null);
  if (state && !state.load && away === null) return null;
  const phase = state?.load?.phase ?? "stopped";
  const paused = phase === "paused";
  const button = (action: LoadAction, wrongPhase: string | null): Button => {
    const why = obstacle(connection, state) ?? away ?? wrongPhase;
    return { action, enabled: why === null, why };
  };
  const startWhy = { waiting: "Load begins as soon as the workers are ready.", running: "Load is already running.", draining: "Load is ending: waiting for running answers.", stopped: null, paused: null }[phase];
  return {
    start: button(paused ? "resume" : "start", startWhy),
    stop: button("stop", phase === "stopped" ? "Load is stopped." : null),
    pause: button(paused ? "resume" : "pause", phase === "running" || paused ? null : "Load is not running."),
  };
}
