/** Start, Stop and Pause of the load generator. */
import { useState } from "preact/compat";
import { api } from "../../api/client";
import type { Connection } from "../../api/feed";
import type { State } from "../../api/types";
import { type Button, loadControls, unreachable } from "../../lib/controls";
import { reportCause } from "../../lib/notices";

const PHASES = { waiting: "Load waits for the first worker", running: "Load is running", paused: "Load is paused", draining: "Load is ending", stopped: "Load is stopped" } as const;

export function LoadButtons({ connection, state }: { connection: Connection; state: State | null }) {
  const [busy, setBusy] = useState(false);
  const controls = loadControls(connection, state);
  if (!controls) return <span className="muted small">No load generator.</span>;
  const press = async ({ action }: Button) => {
    setBusy(true);
    await api.load(action).catch(reportCause);
    setBusy(false);
  };
  const shown = (button: Button, label: string, className = "") => (
    <button type="button" className={className} disabled={busy || !button.enabled} title={button.why ?? undefined} onClick={() => void press(button)}>
      {label}
    </button>
  );
  const place = state?.load_at;
  const phase = unreachable(place ?? null) !== null ? "Load unreachable" : state?.load ? PHASES[state.load.phase] : "";
  const paused = state?.load?.phase === "paused";
  return (
    <div className="load-buttons" role="group" aria-label="Load">
      <span className="muted small phase" title={place?.kind === "elsewhere" ? place.url : undefined}>{phase}</span>
      {shown(controls.pause, paused ? "Resume" : "Pause", "quiet")}
      {shown(controls.start, "Start", "primary")}
      {shown(controls.stop, "Stop", "stop")}
    </div>
  );
}
