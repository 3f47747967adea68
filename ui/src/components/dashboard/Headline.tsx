/** The argument of the demo in three figures, to be read from across a room. */
import type { ReactNode } from "preact/compat";
import type { Scene } from "../../lib/comparable";
import { whyNone } from "../../lib/baseline";
import { headline, type HeadlineFigure, type Source } from "../../lib/headline";
import { modeName } from "../../lib/mode";
import "./Headline.css";

export function Headline({ scene }: { scene: Scene }) {
  const why = whyNone(scene.state.baseline) ?? "Loading the sweep.";
  if (!scene.baseline) return <section className="headline none muted">Nothing to compare with round robin yet. {why}</section>;
  const { figures, bars, mode } = headline(scene, why);
  const { ttft_p95_ms: ttft, tpot_p95_ms: tpot } = scene.state.slos;
  const [capacity, ...others] = figures;
  return (
    <section className="headline" aria-label={`${modeName(mode)} against round robin`}>
      <Shown figure={capacity}>
        {bars && <Bars ours={bars[0]} theirs={bars[1]} />}
        <p className="muted">
          TTFT p95 &lt; {ttft} ms, TPOT p95 &lt; {tpot} ms
        </p>
      </Shown>
      {others.map((figure) => (
        <Shown key={figure.label} figure={figure} />
      ))}
    </section>
  );
}

function Shown({ figure, children }: { figure: HeadlineFigure; children?: ReactNode }) {
  const { label, value, unit, detail, rr, better, source, note } = figure;
  return (
    <div className={value === null ? "claim missing" : "claim"} title={note || undefined}>
      <h2>
        {label} {source && <Badge source={source} />}
      </h2>
      {value === null ? (
        <p className="lack">{detail}</p>
      ) : (
        <>
          <p className={better === null ? "big" : better ? "big better" : "big worse"}>
            <b>{value}</b> {unit}
          </p>
          <p className="against">
            <span className="ours">{detail}</span> <span className="rr">round robin {rr}</span>
          </p>
          {children}
        </>
      )}
    </div>
  );
}

function Badge({ source }: { source: Source }) {
  return (
    <>
      <span className={source.name === "live" ? "badge good" : "badge"}>{source.name}</span> {source.simulated && <span className="badge simulated">simulated</span>}
    </>
  );
}

/** Ours above round robin's, on the scale of the highest level of the sweep. */
function Bars({ ours, theirs }: { ours: number; theirs: number }) {
  return (
    <div className="bars" aria-hidden="true">
      <i style={{ width: `${100 * ours}%`, background: "var(--kv)" }} />
      <i style={{ width: `${100 * theirs}%`, background: "var(--rr)" }} />
    </div>
  );
}
