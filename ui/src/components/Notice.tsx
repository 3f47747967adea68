/** What a page says when it has nothing to show, or when the server refused. */
import type { ReactNode } from "preact/compat";
import "./parts.css";

export function Notice({ error = false, children }: { error?: boolean; children: ReactNode }) {
  return (
    <p className={error ? "notice error" : "notice"} role={error ? "alert" : undefined}>
      {children}
    </p>
  );
}
