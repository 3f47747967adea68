/** Live versus round robin: the centre of the console. */
import { useRef } from "react";
import type { FetchedBaseline } from "../../api/baseline";
import type { Connection } from "../../api/feed";
import type { HistoryPoint, State } from "../../api/types";
import { cellOf, describe, liveMatch, RR, whyNone } from "../../lib/baseline";
import { allFine, caveats, type Steady, steady } from "../../lib/comparable";
import { modeName } from "../../lib/mode";
import { ComparisonTable } from "./ComparisonTable";
import { Arrivals, ConcurrencySlider } from "./ConcurrencySlider";

type Props = { connection: Connection; state: State; points: readonly HistoryPoint[]; fetched: FetchedBaseline };

export function LivePanel({ connection, state, points, fetched }: Props) {
  const { load, slos } = state;
  const { baseline, error } = fetched;
  const settings = useRef<Steady | null>(null);
  settings.current = steady(settings.current, state);
  const match = liveMatch(baseline, load);
  const arrivals = load?.settings.arrivals_per_second ?? null;
  const notes = caveats(state, points, settings.current, baseline);
  if (state.router.mode === RR) notes.unshift("Live is round robin too: expect no difference.");
  const isRunning = load !== null && load.phase !== "stopped";
  return (
    <section className="panel live" aria-labelledby="live-title">
      <header>
        <div>
          <h2 id="live-title">Live versus round robin</h2>
          <p className="muted small">
            Objectives: TTFT p95 &lt; {slos.ttft_p95_ms} ms, TPOT p95 &lt; {slos.tpot_p95_ms} ms
          </p>
        </div>
        {load && arrivals === null && <ConcurrencySlider connection={connection} state={state} load={load} />}
        {load && arrivals !== null && <Arrivals load={load} perSecond={arrivals} />}
      </header>
      <ComparisonTable liveName={modeName(state.router.mode)} window={load?.window ?? null} rr={cellOf(match?.level, RR)} slos={slos} />
      <footer className="small">
        <BaselineLine state={state} text={baseline && match ? describe(baseline, match) : null} error={error} />
        <ul className="caveats" aria-label="Notes on the comparison">
          {!isRunning && <li>{load ? "Load is stopped: press Start to see live values." : "Started without a load generator, so there are no live values."}</li>}
          {connection !== "open" && <li>The connection is lost: these are the last values received.</li>}
          {connection === "open" && isRunning && notes.length === 0 && match?.exact && <li className="fine">{allFine(state, settings.current)}</li>}
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
