/** How requests are routed, changed at once. */
import { api } from "../../api/client";
import type { Connection } from "../../api/feed";
import type { State } from "../../api/types";
import { obstacle } from "../../lib/controls";
import { isElsewhere, modeName } from "../../lib/mode";
import { report } from "../../lib/notices";
import { useWish } from "../../lib/wish";

export function RouterSelect({ connection, state }: { connection: Connection; state: State }) {
  const { router } = state;
  const [mode, wish] = useWish(router.mode, (next) => api.router({ mode: next }), 0, report);
  const why = obstacle(connection, state);
  if (isElsewhere(router)) return null;
  return (
    <label className="router" title={why ?? "Takes effect with the next request."}>
      <span className="muted small">Router</span>
      <select aria-label="Router" value={mode} disabled={why !== null} onChange={(event) => wish(event.currentTarget.value)}>
        {[...new Set([...router.modes, mode])].map((each) => (
          <option key={each} value={each}>
            {modeName(each)}
          </option>
        ))}
      </select>
    </label>
  );
}
