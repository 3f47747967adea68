/** One load, four stages: what the shipped sweep measured, beside what the running system does now. */
import { useLive } from "../api/live";
import type { State } from "../api/types";
import { Choice } from "../components/dashboard/Choice";
import { Notice } from "../components/Notice";
import { StageCard } from "../components/story/StageCard";
import { ms, number, percent } from "../lib/format";
import { useQuery } from "../lib/route";
import { modeName } from "../lib/mode";
import { atLevel, levelOf, STAGES, STORY, stageOf } from "../lib/story";
import { speculation } from "../lib/totals";
import "./Story.css";

export function Story() {
  const state = useLive();
  const [query, change] = useQuery();
  if (!state) return <Notice>Waiting for the server…</Notice>;
  const asked = Number(query.get("level"));
  const level = STORY.levels.includes(asked) ? asked : levelOf(STORY, state);
  const cells = atLevel(STORY, level);
  const current = stageOf(state);
  return (
    <>
      <section className="panel story" aria-labelledby="story-title">
        <header className="page-head">
          <h2 id="story-title">
            One load, four stages {STORY.simulated && <span className="badge simulated">simulated sweep</span>}
          </h2>
          <div className="level">
            <span className="muted">Conversations at once</span>
            <Choice label="Conversations at once" name="level" value={String(level)} choices={Object.fromEntries(STORY.levels.map((each) => [each, String(each)]))} onChoose={(level) => change({ level })} />
          </div>
        </header>
        <ol className="stages">
          {STAGES.map((stage, index) => {
            const cell = cells.find(({ mode }) => mode === stage.mode);
            return cell && <StageCard key={stage.mode} number={index + 1} stage={stage} cell={cell} all={cells} current={current === stage.mode} />;
          })}
        </ol>
        <p className="muted small method">
          {STORY.simulated ? "Virtual time, no GPU: " : ""}
          {STORY.workers} replicas, the same conversations in every stage, medians of {STORY.repeats} runs. Percentages compare with round robin.
          {STORY.simulated && " How many drafted tokens are accepted is an assumption of the profiles."}
        </p>
      </section>
      <Now state={state} current={current} />
    </>
  );
}

/** The same figures of the system that runs. */
function Now({ state, current }: { state: State; current: string | null }) {
  const drafts = speculation(state.workers);
  const window = state.load?.window;
  const stage = STAGES.findIndex(({ mode }) => mode === current);
  const words = stage < 0 ? `${modeName(state.router.mode)}${drafts ? " with drafted tokens" : ""}: none of the four stages` : `Stage ${stage + 1}: ${stageName(stage)}`;
  const figures = [
    { label: "TTFT p95", value: ms(window?.ttft_ms.p95) },
    { label: "TPOT p95", value: ms(window?.tpot_ms.p95) },
    { label: "tokens/s", value: number(window?.tops) },
    { label: "drafted tokens accepted", value: percent(drafts?.acceptancePct) },
    { label: "tokens per step", value: number(drafts?.tokensPerStep, 2) },
  ];
  return (
    <section className="panel story-now" aria-labelledby="now-title">
      <header>
        <h2 id="now-title">
          This system now {state.simulated && <span className="badge simulated">simulated</span>}
        </h2>
        <p>{words}</p>
      </header>
      <dl>
        {figures.map(({ label, value }) => (
          <div key={label}>
            <dd>{value}</dd>
            <dt className="muted">{label}</dt>
          </div>
        ))}
      </dl>
      <p className="muted small">Latencies and tokens/s of the last minute{state.load ? ` at ${number(state.load.conversations.active)} conversations` : ""}; drafts since the workers started.</p>
    </section>
  );
}

/** Later stages add to KV-aware routing. */
const stageName = (stage: number): string => `${stage > 1 ? "KV-aware " : ""}${STAGES[stage]?.name ?? ""}`;
