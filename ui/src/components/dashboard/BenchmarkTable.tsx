/** All levels of a sweep: the whole curve, with the levels where the other mode loses. */
import type { FetchedBaseline } from "../../api/baseline";
import type { BaselineCell, BaselineLevel, Slos, State } from "../../api/types";
import { cellOf, KV, liveMatch, origin, RR, whyNone } from "../../lib/baseline";
import { DASH, number } from "../../lib/format";
import { type Group, groupsOf, isUnsure, rivals, verdict } from "../../lib/levels";
import { modeName } from "../../lib/mode";
import { PUBLISHED } from "../../lib/published";
import { useSearch } from "../../lib/search";
import { standing } from "../../lib/slo";
import { more100 } from "../../lib/verdict";
import { Choice } from "./Choice";
import { Held } from "./Held";

const OTHERS = "published";
const LEGEND = "A positive gain is better; n.s.: not significant. Green is within the objective, amber within its last tenth, red misses it.";

export function BenchmarkTable({ state, fetched }: { state: State; fetched: FetchedBaseline }) {
  const { baseline, error } = fetched;
  const swept = baseline ? rivals(baseline.levels) : [];
  const modes = swept.length > 0 ? swept : [KV];
  const usual = modes.includes(KV) ? KV : (modes[0] ?? KV);
  const [chosen, choose] = useSearch("against", [usual, ...modes.filter((mode) => mode !== usual), OTHERS]);
  const choices = Object.fromEntries([usual, ...modes, OTHERS].map((mode) => [mode, mode === OTHERS ? "Published" : modeName(mode)]));
  const current = liveMatch(baseline, state.load);
  const here = (concurrency: number) => current?.exact === true && current.level.concurrency === concurrency;
  const isOthers = chosen === OTHERS;
  return (
    <section className="panel benchmark" aria-labelledby="benchmark-title">
      <header>
        <h2 id="benchmark-title">
          Benchmark at every level {isOthers ? <span className="badge measured">measured and published by others</span> : baseline?.simulated && <span className="badge simulated">simulated</span>}
        </h2>
        <Choice label="Compared with round robin" name="against" value={chosen} choices={choices} onChoose={choose} />
      </header>
      {isOthers && (
        <>
          <Levels levels={PUBLISHED.levels} mode={rivals(PUBLISHED.levels)[0] ?? KV} slos={state.slos} here={() => false} />
          <p className="small muted">{PUBLISHED.about} How sure a difference is, they do not say. {LEGEND}</p>
        </>
      )}
      {!isOthers && baseline && (
        <>
          <Levels levels={baseline.levels} mode={chosen} slos={state.slos} here={here} />
          <p className="small muted">
            {verdict(baseline, chosen, state.slos)} {LEGEND}
          </p>
          <details className="small muted origin">
            <summary>How this was measured</summary>
            <dl>
              {origin(baseline).map(([name, value]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{value}</dd>
                </div>
              ))}
            </dl>
          </details>
        </>
      )}
      {!isOthers && !baseline && <p className="muted">{error ?? whyNone(state.baseline) ?? "Loading the baseline."}</p>}
    </section>
  );
}

type LevelsProps = { levels: readonly BaselineLevel[]; mode: string; slos: Slos; here: (concurrency: number) => boolean };

function Levels({ levels, mode, slos, here }: LevelsProps) {
  const groups = groupsOf(levels);
  return (
    <div className="scroll" tabIndex={0} role="region" aria-label="Benchmark">
      <table>
        <thead>
          <tr>
            <th scope="col" rowSpan={2}>Conversations</th>
            {groups.map((group) => (
              <th key={group.title} scope="colgroup" colSpan={3} className="group">{group.title}</th>
            ))}
          </tr>
          <tr>
            {groups.flatMap(({ title }) =>
              ["RR", modeName(mode), "Gain"].map((column, index) => (
                <th key={`${title} ${column}`} scope="col" className={index === 2 ? "number last" : "number"}>{column}</th>
              )),
            )}
          </tr>
        </thead>
        <tbody>
          {levels.map((level) => (
            <Level key={level.concurrency} level={level} mode={mode} groups={groups} slos={slos} current={here(level.concurrency)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Level({ level, mode, groups, slos, current }: { level: BaselineLevel; mode: string; groups: Group[]; slos: Slos; current: boolean }) {
  const [rr, ours] = [cellOf(level, RR), cellOf(level, mode)];
  return (
    <tr className={current ? "current" : ""} aria-current={current ? "true" : undefined}>
      <th scope="row">
        {level.concurrency} {current && <span className="badge">now</span>}
      </th>
      {groups.flatMap((group) => [
        <Figure key={`${group.title} rr`} group={group} cell={rr} slos={slos} />,
        <Figure key={`${group.title} ours`} group={group} cell={ours} slos={slos} />,
        <Gain key={`${group.title} gain`} group={group} rr={rr} ours={ours} unsure={isUnsure(level, mode, group)} />,
      ])}
    </tr>
  );
}

function Figure({ group, cell, slos }: { group: Group; cell: BaselineCell | null; slos: Slos }) {
  const [value, objective] = [cell ? group.of(cell) : null, group.objective(slos)];
  const requests = cell && cell.requests > 0 ? `, of ${number(cell.requests)} requests${cell.errors > 0 ? `, ${number(cell.errors)} failed` : ""}` : "";
  return (
    <td className="number">
      <Held text={number(value, group.digits)} stands={objective === null ? "unknown" : standing(value, objective)} more={requests} />
    </td>
  );
}

/** In per cent of round robin's; shares, which are per cent themselves, in points. */
function Gain({ group, rr, ours, unsure }: { group: Group; rr: BaselineCell | null; ours: BaselineCell | null; unsure: boolean }) {
  const [before, now] = [rr ? group.of(rr) : null, ours ? group.of(ours) : null];
  const points = group.title.endsWith("%");
  const more = before === null || now === null ? null : points ? now - before : more100(before, now);
  if (more === null) return <td className="number last">{DASH}</td>;
  const gain = group.less ? -more : more;
  const worse = gain < 0;
  return (
    <td className={`number last${unsure ? "" : worse ? " gain worse" : " gain"}`}>
      {worse ? "−" : "+"}{number(Math.abs(gain), 1)}{points ? " pts" : " %"}{worse && <span className="visually-hidden">, worse</span>}
      {unsure && <small className="muted" title="not significant"> n.s.<span className="visually-hidden">: not significant</span></small>}
    </td>
  );
}
