/** What went wrong, under the header, until it is over or dismissed. */
import { type ReactNode, useEffect, useState } from "preact/compat";
import type { LoadPlace, Snapshot } from "../../api/types";
import { unreachable } from "../../lib/controls";
import { failureNotice } from "../../lib/failure";
import { number } from "../../lib/format";
import { dismiss, useNotices } from "../../lib/notices";

export function Alerts({ load, loadAt }: { load: Snapshot | null; loadAt: LoadPlace | null }) {
  const notices = useNotices();
  const away = unreachable(loadAt);
  const failure = away === null ? failureNotice(load) : { kind: "load-elsewhere", text: away, count: 0 };
  const [hidden, setHidden] = useState<string | null>(null);
  const kind = failure?.kind ?? null;
  // One that is over may be shown anew when it comes back.
  useEffect(() => {
    if (kind === null) setHidden(null);
  }, [kind]);
  const shown = failure && failure.kind !== hidden ? failure : null;
  if (!shown && notices.length === 0) return null;
  return (
    <div className="alerts">
      {shown && (
        <Alert of="load" text={shown.text} onDismiss={() => setHidden(shown.kind)}>
          {shown.count > 0 && <span className="small">{number(shown.count)} failed in the last minute</span>}
        </Alert>
      )}
      {notices.map((notice) => (
        <Alert key={notice.id} of="viewer" text={notice.text} onDismiss={() => dismiss(notice.id)} />
      ))}
    </div>
  );
}

/** A count beside the text changes every second and is not part of what is announced. */
function Alert({ of, text, onDismiss, children }: { of: "load" | "viewer"; text: string; onDismiss: () => void; children?: ReactNode }) {
  return (
    <div className={`alert ${of}`}>
      <span aria-hidden="true">!</span>
      <p role="alert">{text}</p>
      {children}
      <button type="button" className="quiet" onClick={onDismiss}>Dismiss</button>
    </div>
  );
}
