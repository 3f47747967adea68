/** Says that this viewer may only look, and takes the control token from one who has it. */
import { useRef, useState } from "preact/compat";
import { api, controlToken } from "../../api/client";

export function ViewOnly({ tokenRequired }: { tokenRequired: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null);
  if (!tokenRequired) return <span className="badge" title="Read-only: changes are not allowed from this address.">View only</span>;
  return (
    <span className="view-only">
      <span className="badge" title="Changes require the control token.">View only</span>
      <button type="button" className="quiet" onClick={() => dialog.current?.showModal()}>
        Enter token
      </button>
      <dialog ref={dialog} aria-labelledby="token-title">
        <TokenForm onClose={() => dialog.current?.close()} />
      </dialog>
    </span>
  );
}

export function TokenForm({ onClose, onGranted = () => window.location.reload() }: { onClose: () => void; onGranted?: () => void }) {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    const before = controlToken.get();
    controlToken.set(token.trim());
    const refused = await api.state().then(
      (state) => (state.control.granted ? null : "The server does not accept this token."),
      (cause: unknown) => (cause instanceof Error ? cause.message : String(cause)),
    );
    setBusy(false);
    if (refused === null) return onGranted();
    if (before === null) controlToken.clear();
    else controlToken.set(before);
    setError(refused);
  };
  return (
    <form className="token" onSubmit={(event) => void submit(event)}>
      <h2 id="token-title">Control token</h2>
      <p className="muted small">The person who started the server has it. It is kept for this tab only.</p>
      <label>
        <span className="small">Token</span>
        <input type="password" autoComplete="off" required value={token} onChange={(event) => setToken(event.currentTarget.value)} />
      </label>
      {error !== null && <p className="value missed small" role="alert">{error}</p>}
      <div className="token-buttons">
        <button type="button" onClick={onClose}>Cancel</button>
        <button type="submit" className="primary" disabled={busy || token.trim() === ""}>Take control</button>
      </div>
    </form>
  );
}
