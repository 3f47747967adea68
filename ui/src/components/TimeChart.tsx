/**
 * A chart over time: uPlot in a Preact component.
 *
 * The plot is made anew when the theme or the set of lines changes, and told of new data and a
 * new size otherwise. Its legend shows the newest values, or those under the pointer.
 */
import { useEffect, useRef, useState } from "preact/compat";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { chartOptions, type Overlay } from "../lib/chart";
import { clock } from "../lib/format";
import { THEME_EVENT } from "../lib/theme";
import "./TimeChart.css";

export type Line = { label: string; /** A CSS colour, variables allowed. */ colour: string; dashed?: boolean };
export type TimeChartProps = {
  title: string;
  lines: readonly Line[];
  /** In seconds. */
  times: number[];
  values: Array<Array<number | null>>;
  format: (value: number | null | undefined) => string;
  overlay: Overlay;
  /** Room for a value in the legend, so that it does not jump. */
  digits?: number;
};

export function TimeChart({ title, lines, times, values, format, overlay, digits = 6.5 }: TimeChartProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ lines, times, values, overlay });
  latest.current = { lines, times, values, overlay };
  const [hovered, setHovered] = useState<number | null>(null);
  const shape = lines.map((line) => `${line.label} ${line.colour}`).join("\n");
  useEffect(() => {
    const target = box.current;
    if (!target) return;
    const make = () => {
      plot.current?.destroy();
      const now = latest.current;
      const size = { width: Math.max(80, target.clientWidth), height: Math.max(80, target.clientHeight) };
      plot.current = new uPlot(chartOptions(size, now.lines, () => latest.current.overlay, setHovered), [now.times, ...now.values], target);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: target.clientWidth, height: target.clientHeight }));
    resized.observe(target);
    window.addEventListener(THEME_EVENT, make);
    return () => {
      window.removeEventListener(THEME_EVENT, make);
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => {
    plot.current?.setData([times, ...values]);
  }, [times, values, overlay]);
  const index = hovered !== null && hovered < times.length ? hovered : times.length - 1;
  const at = times[index];
  const shown = lines.map((line, row) => ({ ...line, text: format(values[row]?.[index]) }));
  const objective = overlay.objective ? ` Objective: ${overlay.objective.label}.` : "";
  return (
    <figure className="time-chart">
      <figcaption>
        <h3>{title}</h3>
        <ul aria-hidden="true">
          {shown.map((line) => (
            <li key={line.label}>
              <span className={line.dashed ? "key dashed" : "key"} style={{ borderColor: line.colour }} />
              {line.label} <b style={{ minWidth: `${digits}ch` }}>{line.text}</b>
            </li>
          ))}
          <li className="muted at">{hovered !== null && at !== undefined ? clock(at * 1000) : ""}</li>
        </ul>
      </figcaption>
      <div className="plot" ref={box} role="img" aria-label={`${title}, now: ${shown.map((line) => `${line.label} ${line.text}`).join(", ")}.${objective}`} />
    </figure>
  );
}
