/** Six figures at a glance. */
import type { State } from "../../api/types";
import { kpis } from "../../lib/kpi";

export function KpiCards({ state }: { state: State }) {
  return (
    <section aria-label="Key figures">
      <dl className="kpis">
        {kpis(state).map((kpi) => (
          <div key={kpi.label} className={kpi.alarm ? "kpi alarm" : "kpi"} title={kpi.detail ? `${kpi.hint} ${kpi.detail}` : kpi.hint}>
            <dt>{kpi.label}</dt>
            <dd>
              <span className="figure">{kpi.value}</span>
              <span className="muted small">{kpi.detail || kpi.unit}</span>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
