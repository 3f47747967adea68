/** A panel of lines over time, with its legend: the newest values, or those under the pointer. */
import { useMemo, useState } from "preact/compat";
import type { PanelData } from "../../api/grafana";
import { clock } from "../../lib/format";
import { inWords, zonesOf } from "../../lib/grafana/axes";
import type { TimeseriesPanel } from "../../lib/grafana/types";
import { format } from "../../lib/grafana/units";
import { Plot } from "./Plot";

export function Timeseries({ panel, data }: { panel: TimeseriesPanel; data: PanelData }) {
  const { series, times, window } = data;
  const [hovered, setHovered] = useState<number | null>(null);
  const picture = useMemo(() => ({ panel, series, window }), [panel, series, window]);
  const at = hovered === null ? undefined : times[hovered];
  if (series.length === 0) return <p className="empty muted">{panel.field.noValue ?? "No data"}</p>;
  return (
    <>
      <Plot picture={picture} times={times} label={inWords(panel.title, series, zonesOf(panel.field))} onHover={setHovered} />
      {panel.legend && (
        <ul className="legend" aria-hidden="true">
          {series.map(({ name, field, colour, values }, index) => {
            const value = at === undefined ? values.findLast((each) => each !== null) : values[hovered ?? 0];
            return (
              <li key={`${index} ${name}`} title={field.axis === "right" ? `${name}, right axis` : name}>
                <span className={field.dash ? "key dashed" : "key"} style={{ borderColor: colour }} />
                <span className="name">{name}</span>
                <b>{format(value, field.unit, field.decimals)}</b>
              </li>
            );
          })}
          <li className="muted at">{at === undefined ? "" : clock(at * 1000)}</li>
        </ul>
      )}
    </>
  );
}
