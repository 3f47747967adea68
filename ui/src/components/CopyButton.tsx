/** Copies a text and says so for a moment. */
import { useEffect, useState } from "preact/compat";
import "./parts.css";

export function CopyButton({ text, label }: { text: string; label: string }) {
  const [said, setSaid] = useState<string | null>(null);
  useEffect(() => {
    if (said === null) return;
    const timer = setTimeout(() => setSaid(null), 1500);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () => {
    // Absent on plain http from another machine.
    const done = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
    done.then(
      () => setSaid("Copied"),
      () => setSaid("Not allowed"),
    );
  };
  return (
    <button type="button" className="quiet" onClick={copy} aria-label={label} title={label}>
      <span aria-live="polite">{said ?? "Copy"}</span>
    </button>
  );
}
