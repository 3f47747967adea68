/** All levels of the baseline: the whole curve, with the levels where KV-aware routing loses. */
import type { FetchedBaseline } from "../../api/baseline";
import type { Baseline, BaselineCell, BaselineLevel, Slos, State } from "../../api/types";
import { capacity, cellOf, certainty, isJudged, KV, liveMatch, losses, RR, undecided, whyNone } from "../../lib/baseline";
import { DASH, duration, number } from "../../lib/format";
import { improvement, standing } from "../../lib/slo";
import { Held } from "./Held";

export function BenchmarkTable({ state, fetched }: { state: State; fetched: FetchedBaseline }) {
  const { baseline, error } = fetched;
  return (
    <section className="panel benchmark" aria-labelledby="benchmark-title">
      <header>
        <h2 id="benchmark-title">
          Benchmark at every level {baseline?.simulated && <span className="badge simulated">simulated</span>}
        </h2>
        {baseline && <p className="muted small">{facts(baseline)}</p>}
      </header>
      {baseline ? <Levels baseline={baseline} state={state} /> : <p className="muted">{error ?? whyNone(state.baseline) ?? "Loading the baseline."}</p>}
    </section>
  );
}

const facts = (baseline: Baseline): string =>
  [
    `run ${baseline.run_id}`,
    new Date(baseline.created_ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" }),
    `seed ${baseline.seed}`,
    `profile ${baseline.profile}`,
    `workload ${baseline.workload}`,
    `${baseline.workers} workers`,
    `${duration(baseline.window_s)} measured after ${duration(baseline.warmup_s)} of warm-up${baseline.repeats > 1 ? `, ${baseline.repeats} times` : ""}`,
  ].join(" · ");

function Levels({ baseline, state }: { baseline: Baseline; state: State }) {
  const { slos } = state;
  const current = liveMatch(baseline, state.load);
  return (
    <>
      <div className="scroll" tabIndex={0} role="region" aria-label="Benchmark">
        <table>
          <thead>
            <tr>
              <th scope="col" rowSpan={2}>Conversations</th>
              <th scope="colgroup" colSpan={3} className="group">TTFT p95, ms</th>
              <th scope="colgroup" colSpan={3} className="group">TPOT p95, ms</th>
            </tr>
            <tr>
              {["TTFT", "TPOT"].flatMap((figure) =>
                ["Round robin", "KV-aware", "Improvement"].map((column) => (
                  <th key={`${figure} ${column}`} scope="col" className="number">{column}</th>
                )),
              )}
            </tr>
          </thead>
          <tbody>
            {baseline.levels.map((level) => (
              <Level key={level.concurrency} level={level} slos={slos} current={current?.exact === true && current.level === level} />
            ))}
          </tbody>
        </table>
      </div>
      <p className="small muted">{verdict(baseline, slos)}</p>
    </>
  );
}

function Level({ level, slos, current }: { level: BaselineLevel; slos: Slos; current: boolean }) {
  const [rr, kv] = [cellOf(level, RR), cellOf(level, KV)];
  return (
    <tr className={current ? "current" : ""} aria-current={current ? "true" : undefined}>
      <th scope="row">
        {level.concurrency} {current && <span className="badge">now</span>}
      </th>
      <Objective value={rr?.ttft_ms.p95} objective={slos.ttft_p95_ms} cell={rr} />
      <Objective value={kv?.ttft_ms.p95} objective={slos.ttft_p95_ms} cell={kv} />
      <Improvement percent={improvement(rr?.ttft_ms.p95, kv?.ttft_ms.p95)} unsure={certainty(level, "ttft_ms") === "not-significant"} />
      <Objective value={rr?.tpot_ms.p95} objective={slos.tpot_p95_ms} cell={rr} />
      <Objective value={kv?.tpot_ms.p95} objective={slos.tpot_p95_ms} cell={kv} />
      <Improvement percent={improvement(rr?.tpot_ms.p95, kv?.tpot_ms.p95)} unsure={certainty(level, "tpot_ms") === "not-significant"} />
    </tr>
  );
}

function Objective({ value, objective, cell }: { value: number | null | undefined; objective: number; cell: BaselineCell | null }) {
  const failed = cell && cell.errors > 0 ? `, ${number(cell.errors)} failed` : "";
  return (
    <td className="number">
      <Held text={number(value, objective < 100 ? 1 : 0)} stands={standing(value, objective)} more={`, of ${number(cell?.requests)} requests${failed}`} />
    </td>
  );
}

function Improvement({ percent, unsure }: { percent: number | null; unsure: boolean }) {
  if (percent === null) return <td className="number">{DASH}</td>;
  const worse = percent < 0;
  return (
    <td className={unsure ? "number" : worse ? "number gain worse" : "number gain"}>
      {worse ? "−" : "+"}{number(Math.abs(percent), 1)} %{worse && <span className="visually-hidden">, worse</span>}
      {unsure && <small className="muted"> not significant</small>}
    </td>
  );
}

/** What the table says, good and bad. */
export function verdict(baseline: Baseline, slos: Slos): string {
  const upTo = (mode: string) => {
    const level = capacity(baseline, mode, slos);
    return level === null ? "at no level" : `up to ${level} conversations`;
  };
  const where = ({ ttft, tpot }: { ttft: number[]; tpot: number[] }) =>
    [ttft.length > 0 ? `TTFT at ${ttft.join(", ")}` : "", tpot.length > 0 ? `TPOT at ${tpot.join(", ")}` : ""].filter(Boolean).join("; ");
  const [lost, even] = [where(losses(baseline)), where(undecided(baseline))];
  const loses = isJudged(baseline) ? "loses" : "was slower";
  const loss = lost && ` Here KV-aware routing ${loses}: ${lost}.`;
  const runs = baseline.repeats === 1 ? "1 run" : `${baseline.repeats} runs`;
  const chance = isJudged(baseline) ? even && ` Not significant: ${even}.` : ` Not enough runs to tell differences from chance: ${runs} of each level.`;
  return `Both objectives are kept ${upTo(KV)} with KV-aware routing, ${upTo(RR)} with round robin.${loss}${chance} A positive improvement means KV-aware is faster. Green is within the objective, amber within its last tenth, red misses it.`;
}
