/** A row of a dashboard: its heading, which opens and closes it, and its panels on a grid of 24 columns. */
import type { Section } from "../../lib/grafana/types";
import { PanelFrame, type Source } from "./PanelFrame";

type Props = { section: Section; open: boolean; onToggle: () => void; source: Source };

export function RowSection({ section, open, onToggle, source }: Props) {
  const top = Math.min(...section.panels.map((panel) => panel.grid.y));
  const count = section.panels.length;
  return (
    <div className="grafana-row">
      {section.title !== null && (
        <h3>
          <button type="button" aria-expanded={open} onClick={onToggle}>
            <span aria-hidden="true">{open ? "▾" : "▸"}</span> {section.title}
            {!open && <small className="muted"> ({count} {count === 1 ? "panel" : "panels"})</small>}
          </button>
        </h3>
      )}
      {open && (
        <div className={source ? "grafana-grid" : "grafana-grid asking"}>
          {section.panels.map((panel) => (
            <PanelFrame key={panel.id} panel={panel} top={top} source={source} />
          ))}
        </div>
      )}
    </div>
  );
}
