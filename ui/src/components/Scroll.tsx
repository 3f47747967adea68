/** What is too wide scrolls in here, by keyboard too, and not the page. */
import type { ReactNode } from "preact/compat";

export function Scroll({ label, children }: { label: string; children: ReactNode }) {
  return (
    // What scrolls has to be reachable without a mouse.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="scroll" role="group" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
