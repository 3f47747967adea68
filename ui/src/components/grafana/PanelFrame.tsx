/** A panel in its place: title, description, and what it shows, whatever that is. */
import { type CSSProperties, memo, type RefObject, useEffect, useRef, useState } from "preact/compat";
import { type Shown, usePanelData } from "../../api/grafana";
import type { DataPanel, Panel } from "../../lib/grafana/types";
import type { Values, Window } from "../../lib/grafana/variables";
import { Stat } from "./Stat";
import { Timeseries } from "./Timeseries";

/** What panels of a page share. `null`: nothing answers queries. */
export type Source = { values: Values; window: Window } | null;

type Props = { panel: Panel; /** The grid's first row. */ top: number; source: Source };

export const PanelFrame = memo(function PanelFrame({ panel, top, source }: Props) {
  const box = useRef<HTMLElement>(null);
  const inSight = useInSight(box);
  const { x, y, w, h } = panel.grid;
  const [title, about] = [`panel-${panel.id}`, `about-${panel.id}`];
  const place = { "--column": `${x + 1} / span ${w}`, "--row": `${y - top + 1} / span ${h}`, "--units": h };
  return (
    <section className={`grafana-panel ${panel.type}`} ref={box} aria-labelledby={title} style={place as CSSProperties}>
      <header>
        <h3 id={title}>{panel.title}</h3>
        {panel.description && (
          <>
            <button type="button" className="about" aria-label={`About ${panel.title}`} aria-describedby={about}>
              <span aria-hidden="true">i</span>
            </button>
            <p role="tooltip" id={about}>{panel.description}</p>
          </>
        )}
      </header>
      {panel.type === "other" ? (
        <p className="empty muted">Panels of type “{panel.kind}” are drawn by Grafana only.</p>
      ) : source ? (
        <Live panel={panel} source={source} inSight={inSight} />
      ) : (
        <Queries panel={panel} />
      )}
    </section>
  );
});

function Live({ panel, source, inSight }: { panel: DataPanel; source: NonNullable<Source>; inSight: boolean }) {
  return <Body panel={panel} shown={usePanelData(panel, source.values, source.window, inSight)} />;
}

function Body({ panel, shown: { data, error } }: { panel: DataPanel; shown: Shown }) {
  return (
    <>
      {error && <p className="panel-error" role="status">{error}</p>}
      {data && panel.type === "stat" && <Stat panel={panel} data={data} />}
      {data && panel.type === "timeseries" && <Timeseries panel={panel} data={data} />}
      {!data && !error && <p className="empty muted">…</p>}
    </>
  );
}

/** What would be asked. */
function Queries({ panel }: { panel: DataPanel }) {
  return (
    <ul className="queries">
      {panel.targets.map((target) => (
        <li key={target.refId}>
          {target.legendFormat && <span className="muted">{target.legendFormat} </span>}
          <code>{target.expr}</code>
        </li>
      ))}
    </ul>
  );
}

/** Whether a part of it is on the screen, or nearly. */
function useInSight(box: RefObject<HTMLElement | null>): boolean {
  const [inSight, setInSight] = useState(false);
  useEffect(() => {
    const target = box.current;
    if (!target) return;
    const observer = new IntersectionObserver((entries) => setInSight(entries.at(-1)?.isIntersecting ?? false), { rootMargin: "150px" });
    observer.observe(target);
    return () => observer.disconnect();
  }, [box]);
  return inSight;
}
