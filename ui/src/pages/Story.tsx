/** One load, four stages: what the shipped sweep measured, beside what the running system does now. */
import { useEffect, useState } from "preact/compat";
import { api } from "../api/client";
import { useHistory } from "../api/history";
import { useFeed } from "../api/live";
import type { State } from "../api/types";
import { Choice } from "../components/dashboard/Choice";
import { useScene } from "../components/dashboard/useScene";
import { Notice } from "../components/Notice";
import { type Run, StageCard } from "../components/story/StageCard";
import { type Scene, unsettled } from "../lib/comparable";
import { obstacle } from "../lib/controls";
import { ms, number, percent } from "../lib/format";
import { report } from "../lib/notices";
import { useQuery } from "../lib/route";
import { modeName } from "../lib/mode";
import { atLevel, isThere, levelOf, type Stage, STAGES, STORY, stageOf, type Switch, switchTo, whyRefused } from "../lib/story";
import { speculation } from "../lib/totals";
import { staying } from "../lib/workers";
import "./Story.css";

/** How long the server may take to show a stage that it accepted. */
const PATIENCE_MS = 5_000;

export function Story() {
  const { state, connection } = useFeed();
  const scene = useScene(state, useHistory(), null);
  const [busy, bringAbout] = useSwitch(state);
  const [query, change] = useQuery();
  if (!state || !scene) return <Notice>Waiting for the server…</Notice>;
  const asked = Number(query.get("level"));
  const level = STORY.levels.includes(asked) ? asked : levelOf(STORY, state);
  const cells = atLevel(STORY, level);
  const current = stageOf(state);
  const why = obstacle(connection, state) ?? (busy ? "Workers are being replaced." : null);
  const run = (stage: Stage): Run | null => {
    const wanted = switchTo(stage, state);
    return wanted && { press: () => bringAbout(stage, wanted), why };
  };
  const others = STAGES.flatMap((stage) => (stage.mode === current ? [] : (switchTo(stage, state) ?? [])));
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
            return cell && <StageCard key={stage.mode} number={index + 1} stage={stage} cell={cell} all={cells} current={current === stage.mode} run={run(stage)} />;
          })}
        </ol>
        <p className="muted small method">
          {STORY.simulated ? "Virtual time, no GPU: " : ""}
          {STORY.workers} replicas, the same conversations in every stage, medians of {STORY.repeats} runs. Percentages compare with round robin.
          {STORY.simulated && " How many drafted tokens are accepted is an assumption of the profiles."}
          {others.length > 0 && howItRuns(others)}
        </p>
      </section>
      <Now scene={scene} current={current} />
    </>
  );
}

function howItRuns(others: readonly Switch[]): string {
  if (others.every(({ profile }) => profile === null)) return " “Run now” sets the router's mode.";
  return " “Run now” puts simulated workers of the stage's profile in the place of those that run, and sets the router's mode: the new workers' caches begin empty.";
}

/** Brings a stage about, and whether one is being brought about: until a state shows it, the server refuses, or has had its time. */
function useSwitch(state: State | null): [boolean, (stage: Stage, wanted: Switch) => void] {
  const [asked, setAsked] = useState<{ stage: Stage; accepted: boolean } | null>(null);
  const accepted = asked !== null && asked.accepted;
  const done = accepted && state !== null && isThere(switchTo(asked.stage, state));
  useEffect(() => {
    if (!accepted) return undefined;
    const patience = setTimeout(() => setAsked(null), done ? 0 : PATIENCE_MS);
    return () => clearTimeout(patience);
  }, [accepted, done]);
  const bringAbout = (stage: Stage, wanted: Switch) => {
    setAsked({ stage, accepted: false });
    send(wanted).then(
      () => setAsked({ stage, accepted: true }),
      (cause: unknown) => {
        report(whyRefused(cause));
        setAsked(null);
      },
    );
  };
  return [asked !== null && !done, bringAbout];
}

async function send({ profile, mode }: Switch): Promise<void> {
  if (profile !== null) await api.replaceWorkers(profile);
  if (mode !== null) await api.router({ mode });
}

/** The same figures of the system that runs, and whether they are its own yet. */
function Now({ scene, current }: { scene: Scene; current: string | null }) {
  const { state } = scene;
  const doubt = unsettled(scene, "e2e");
  const drafts = speculation(staying(state.workers));
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
        <p>
          {words} {doubt && <span className="muted small unsettled">{doubt.long}</span>}
        </p>
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
