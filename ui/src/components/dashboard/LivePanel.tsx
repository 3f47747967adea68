/** Live versus round robin: the centre of the console. */
import type { FetchedBaseline } from "../../api/baseline";
import type { Connection } from "../../api/feed";
import type { State } from "../../api/types";
import { describe, whyNone } from "../../lib/baseline";
import { caveats, matchOf, type Scene } from "../../lib/comparable";
import { ComparisonTable } from "./ComparisonTable";
import { Arrivals, ConcurrencySlider } from "./ConcurrencySlider";

type Props = { connection: Connection; scene: Scene; fetched: FetchedBaseline };

export function LivePanel({ connection, scene, fetched }: Props) {
  const { load, slos } = scene.state;
  const { baseline, error } = fetched;
  const match = matchOf(scene);
  const arrivals = load?.settings.arrivals_per_second ?? null;
  const notes = caveats(scene);
  return (
    <section className="panel live" aria-labelledby="live-title">
      <header>
        <div>
          <h2 id="live-title">Live versus round robin</h2>
          <p className="muted small">
            Objectives: TTFT p95 &lt; {slos.ttft_p95_ms} ms, TPOT p95 &lt; {slos.tpot_p95_ms} ms
          </p>
        </div>
        {load && arrivals === null && <ConcurrencySlider connection={connection} state={scene.state} load={load} baseline={baseline} />}
        {load && arrivals !== null && <Arrivals load={load} perSecond={arrivals} />}
      </header>
      <ComparisonTable scene={scene} />
      <footer className="small">
        <BaselineLine state={scene.state} text={baseline && match ? describe(baseline, match) : null} error={error} />
        <ul className="caveats" aria-label="Notes on the comparison">
          {connection !== "open" && <li>The connection is lost: these are the last values received.</li>}
          {connection === "open" && notes.length === 0 && match && <li className="fine">The window is full, and nothing changed in it.</li>}
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      </footer>
    </section>
  );
}

function BaselineLine({ state, text, error }: { state: State; text: string | null; error: string | null }) {
  const status = state.baseline;
  if (text !== null) return <p className="muted">{text}</p>;
  if (error !== null) return <p className="muted">The baseline could not be loaded: {error}</p>;
  return (
    <p className="muted">
      {whyNone(status) ?? "Loading the baseline."}{" "}
      {status.state === "computing" && <progress max={status.total} value={status.done} aria-label="Baseline" />}
    </p>
  );
}
