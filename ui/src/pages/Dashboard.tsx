/** The main view: live against round robin, key figures, charts, the whole benchmark, the workers. */
import { useMemo } from "preact/compat";
import { useBaseline } from "../api/baseline";
import { useHistory } from "../api/history";
import { useFeed } from "../api/live";
import { BenchmarkTable } from "../components/dashboard/BenchmarkTable";
import { Choice } from "../components/dashboard/Choice";
import { Headline } from "../components/dashboard/Headline";
import { Infrastructure } from "../components/dashboard/Infrastructure";
import { KpiCards } from "../components/dashboard/KpiCards";
import { LivePanel } from "../components/dashboard/LivePanel";
import { TimeCharts } from "../components/dashboard/TimeCharts";
import { TurnChart } from "../components/dashboard/TurnChart";
import { useScene } from "../components/dashboard/useScene";
import { liveMatch } from "../lib/baseline";
import { useSearch } from "../lib/search";
import { turnLines } from "../lib/turns";
import "./Dashboard.css";

export function Dashboard() {
  const { connection, state } = useFeed();
  const points = useHistory();
  const fetched = useBaseline(state?.baseline);
  const [minutes, setMinutes] = useSearch("minutes", ["5", "15"]);
  const [percentile, setPercentile] = useSearch("turn", ["p50", "p95"]);
  const scene = useScene(state, points, fetched.baseline);
  const load = state?.load ?? null;
  const match = useMemo(() => liveMatch(fetched.baseline, load), [fetched.baseline, load]);
  const lines = useMemo(() => turnLines(load?.by_mode ?? [], match, percentile), [load, match, percentile]);
  if (!state || !scene) return <section className="panel muted">{connection === "down" ? "The server is unreachable. Reconnecting…" : "Waiting for the first values."}</section>;
  return (
    <>
      <Headline scene={scene} />
      <LivePanel connection={connection} scene={scene} fetched={fetched} />
      <KpiCards scene={scene} />
      <div className="charts">
        <section className="panel" aria-labelledby="time-title">
          <header>
            <h2 id="time-title">Over time</h2>
            <Choice label="Span" name="minutes" value={minutes} choices={{ "5": "5 min", "15": "15 min" }} onChoose={setMinutes} />
          </header>
          <div className="time-charts">
            <TimeCharts state={state} points={points} minutes={Number(minutes)} />
          </div>
        </section>
        <section className="panel turn-panel" aria-labelledby="turn-title">
          <header>
            <h2 id="turn-title">TTFT by turn, ms</h2>
            <Choice label="Percentile" name="turn" value={percentile} choices={{ p50: "p50", p95: "p95" }} onChoose={setPercentile} />
          </header>
          <TurnChart lines={lines} percentile={percentile} />
          <p className="muted small">
            Solid: live, since load was last started or changed.{match && ` Dashed: the baseline at ${match.exact ? "" : "the nearest level, "}${match.level.concurrency} conversations.`} A
            follow-up whose history is cached skips most of the work before its first token.
          </p>
        </section>
      </div>
      <BenchmarkTable state={state} fetched={fetched} />
      <Infrastructure state={state} />
    </>
  );
}
