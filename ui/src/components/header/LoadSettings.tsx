/** A small form beside the buttons: how conversations begin, how long they are and how fast they come. */
import { useState } from "preact/compat";
import { api, Refused } from "../../api/client";
import type { Connection } from "../../api/feed";
import type { Snapshot, State } from "../../api/types";
import { obstacle, unreachable } from "../../lib/controls";
import { BEGINNINGS, type Beginning, beginningOf, type Change, FIELDS, withBeginning, ZIPF } from "../../lib/load-settings";
import { SettingField } from "./SettingField";
import "./LoadSettings.css";

const ID = "load-settings";
const SELECT_ID = "setting-starters";

export function LoadSettings({ connection, state, load }: { connection: Connection; state: State; load: Snapshot }) {
  /** By the setting that the server blames. */
  const [errors, setErrors] = useState<Record<string, string>>({});
  const why = obstacle(connection, state) ?? unreachable(state.load_at);
  const { settings } = load;
  const send = async (name: string, change: Change): Promise<boolean> => {
    try {
      await api.settings(change);
      setErrors({});
      return true;
    } catch (cause) {
      const field = (cause instanceof Refused ? cause.field : null) ?? name;
      setErrors({ [field]: cause instanceof Error ? cause.message : String(cause) });
      return false;
    }
  };
  const field = { settings, disabled: why !== null, send };
  const starters = errors["starters"];
  return (
    <>
      <button type="button" className="load-settings-button" popoverTarget={ID} title={why ?? "How conversations begin, how long they are, how fast they come"}>
        Load settings
      </button>
      <div id={ID} className="load-settings" popover="auto" role="dialog" aria-label="Load settings">
        <h2>Load settings</h2>
        <p className="muted small">{why ?? "A change applies at once; a running conversation follows from its next turn on."}</p>
        <div className="setting">
          <label htmlFor={SELECT_ID}>Conversations begin with</label>
          <select
            id={SELECT_ID}
            value={beginningOf(settings)}
            disabled={why !== null}
            aria-invalid={starters !== undefined}
            aria-describedby={starters === undefined ? undefined : `${SELECT_ID}-error`}
            onChange={(event) => void send("starters", withBeginning(event.currentTarget.value as Beginning))}
          >
            {Object.entries(BEGINNINGS).map(([beginning, label]) => (
              <option key={beginning} value={beginning}>{label}</option>
            ))}
          </select>
          {starters !== undefined && <p id={`${SELECT_ID}-error`} className="value missed small" role="alert">{starters}</p>}
        </div>
        {beginningOf(settings) === "zipf" && <SettingField field={ZIPF} {...field} error={errors["zipf"]} />}
        {FIELDS.map((each) => (
          <SettingField key={each.name} field={each} {...field} error={errors[each.name]} />
        ))}
      </div>
    </>
  );
}
