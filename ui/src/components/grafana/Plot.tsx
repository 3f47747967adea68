/** uPlot in Preact, for a panel: made anew for other series or another theme, fed otherwise. */
import { useEffect, useRef } from "preact/compat";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Picture, panelOptions, shapeOf } from "../../lib/grafana/plot";
import { THEME_EVENT } from "../../lib/theme";

export type PlotProps = { picture: Picture; times: number[]; label: string; /** The point under the pointer. */ onHover?: (index: number | null) => void };

const ignore = () => undefined;

export function Plot({ picture, times, label, onHover = ignore }: PlotProps) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef({ picture, times, onHover });
  latest.current = { picture, times, onHover };
  const shape = shapeOf(picture);
  useEffect(() => {
    const target = box.current;
    if (!target) return;
    const size = () => ({ width: Math.max(40, target.clientWidth), height: Math.max(20, target.clientHeight) });
    const make = () => {
      plot.current?.destroy();
      const options = panelOptions(size(), () => latest.current.picture, (index) => latest.current.onHover(index));
      plot.current = new uPlot(options, dataOf(latest.current), target);
    };
    make();
    const resized = new ResizeObserver(() => plot.current?.setSize(size()));
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
    plot.current?.setData(dataOf({ picture, times }));
  }, [picture, times]);
  return <div className="plot" ref={box} role="img" aria-label={label} />;
}

const dataOf = ({ picture, times }: Pick<PlotProps, "picture" | "times">): uPlot.AlignedData => [times, ...picture.series.map((each) => each.heights)];
