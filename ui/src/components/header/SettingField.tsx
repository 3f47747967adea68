/**
 * One setting of the load generator. What is typed is sent after a rest and stays as it was typed
 * until the server shows the same, or has had its time; what was refused stays with the reason.
 */
import { Fragment, useEffect, useRef, useState } from "preact/compat";
import type { Settings } from "../../api/types";
import type { Change, Field } from "../../lib/load-settings";
import { PATIENCE_MS } from "../../lib/wish";

export const REST_MS = 300;

type Props = { field: Field; settings: Settings; disabled: boolean; error: string | undefined; send: (name: string, change: Change) => Promise<boolean> };

export function SettingField({ field, settings, disabled, error, send }: Props) {
  const shown = field.show(settings);
  /** `null` while the field follows the server. */
  const [typed, setTyped] = useState<string[] | null>(null);
  const [malformed, setMalformed] = useState(false);
  const latest = useRef(send);
  latest.current = send;
  useEffect(() => {
    if (!typed) return;
    let current = true;
    let patience: ReturnType<typeof setTimeout> | undefined;
    const rest = setTimeout(async () => {
      const change = field.read(typed);
      setMalformed(change === null);
      if (change === null || !(await latest.current(field.name, change)) || !current) return;
      patience = setTimeout(() => setTyped(null), PATIENCE_MS);
    }, REST_MS);
    return () => {
      current = false;
      clearTimeout(rest);
      clearTimeout(patience);
    };
  }, [typed, field]);
  const texts = typed ?? shown;
  const id = `setting-${field.name}`;
  const problem = malformed ? "Please enter a number." : error;
  return (
    <div className="setting" role={texts.length > 1 ? "group" : undefined} aria-label={texts.length > 1 ? field.label : undefined}>
      {texts.length > 1 ? <span>{field.label}</span> : <label htmlFor={id}>{field.label}</label>}
      <span className={texts.length > 1 ? "setting-inputs range" : "setting-inputs"}>
        {texts.map((text, index) => (
          <Fragment key={field.parts[index]}>
            {index > 0 && <span className="muted">to</span>}
            <input
              id={index === 0 ? id : undefined}
              aria-label={texts.length > 1 ? `${field.label}, ${field.parts[index]}` : undefined}
              inputMode="decimal"
              autoComplete="off"
              value={text}
              placeholder={field.empty ?? undefined}
              disabled={disabled}
              aria-invalid={problem !== undefined}
              aria-describedby={problem === undefined ? undefined : `${id}-error`}
              onChange={(event) => setTyped(texts.map((each, place) => (place === index ? event.currentTarget.value : each)))}
            />
          </Fragment>
        ))}
        {field.unit && <span className="muted">{field.unit}</span>}
      </span>
      {problem !== undefined && <p id={`${id}-error`} className="value missed small" role="alert">{problem}</p>}
    </div>
  );
}
