/** A panel of one large value, with a small curve of how it came to be. */
import { useMemo } from "preact/compat";
import type { PanelData } from "../../api/grafana";
import { DASH } from "../../lib/format";
import { reduce } from "../../lib/grafana/answers";
import { fieldColour } from "../../lib/grafana/colours";
import type { Field, StatPanel } from "../../lib/grafana/types";
import { format } from "../../lib/grafana/units";
import { Plot } from "./Plot";

/** A curve that nobody can read values from needs little. */
const QUIET: Partial<Field> = { lineWidth: 1.5, fillOpacity: 12, axis: "left", min: null, max: null };

export function Stat({ panel, data }: { panel: StatPanel; data: PanelData }) {
  const { series, times, window } = data;
  const values = series.map((each, index) => {
    const value = reduce(each.values, panel.calc);
    return { ...each, value, colour: panel.coloured ? fieldColour(each.field, index, value) : "var(--text)" };
  });
  const curve = useMemo(() => series.filter((each) => each.values.length === times.length).slice(0, 1).map((each) => ({ ...each, field: { ...each.field, ...QUIET } })), [series, times]);
  const picture = useMemo(() => ({ panel, series: curve, window }), [panel, curve, window]);
  return (
    <>
      <div className="stats">
        {values.length === 0 && <p className="stat-value muted">{panel.field.noValue ?? DASH}</p>}
        {values.map(({ name, field, value, colour }, index) => (
          <p key={`${index} ${name}`} className="stat-value" style={{ color: colour }}>
            {value === null ? (field.noValue ?? DASH) : format(value, field.unit, field.decimals)}
            {values.length > 1 && <small className="muted">{name}</small>}
          </p>
        ))}
      </div>
      {panel.sparkline && curve.length > 0 && <Plot picture={picture} times={times} label={`${panel.title} over the range`} />}
    </>
  );
}
