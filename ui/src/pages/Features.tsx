/** What the system does, with the figures of this moment and one honest sentence each. */
import { useBaseline } from "../api/baseline";
import { useLive } from "../api/live";
import type { Baseline, BaselineStatus, State } from "../api/types";
import { CopyButton } from "../components/CopyButton";
import { DraftPositions } from "../components/DraftPositions";
import { FeatureCard, type Figure } from "../components/FeatureCard";
import { Notice } from "../components/Notice";
import { Questions } from "../components/Questions";
import { apiBase } from "../lib/address";
import { ms, number, percent } from "../lib/format";
import { isElsewhere, looksAtCaches, modeName } from "../lib/mode";
import { settingsWords, speculation, sums } from "../lib/totals";

export function Features() {
  const state = useLive();
  const fetched = useBaseline(state?.baseline);
  if (!state) return <Notice>Waiting for the server…</Notice>;
  const elsewhere = isElsewhere(state.router);
  return (
    <>
      <div className="page-head">
        <h2>Features</h2>
        <span className="muted small">{elsewhere ? "the target is another server: only its answers are visible" : "current values"}</span>
      </div>
      <div className="features">
        {!elsewhere && <Serving state={state} />}
        <Reaching state={state} />
        <Laboratory status={state.baseline} baseline={fetched.baseline} />
        <Load state={state} />
      </div>
      <Questions state={state} baseline={fetched.baseline} />
    </>
  );
}

/** What happens to a request. */
function Serving({ state }: { state: State }) {
  const total = sums(state.workers);
  const spec = speculation(state.workers);
  const window = state.load?.window;
  const routed = looksAtCaches(state.router.mode);
  const share = (blocks: number) => percent(total.total > 0 ? (100 * blocks) / total.total : null, 0);
  return (
    <>
      <FeatureCard
        title="KV-aware routing"
        mark={routed ? undefined : `off: ${modeName(state.router.mode)}`}
        figures={[
          { label: "prompt tokens cached, 60 s", value: percent(window?.cached_pct) },
          { label: "decisions", value: number(state.last_decision?.number) },
        ]}
        words="Each request goes where it is expected to be served soonest, counting what a worker's cache already holds and what the request costs the others there. The mode can be changed while requests run."
      />
      <FeatureCard
        title="Prefix cache"
        figures={[
          { label: `kept for reuse (${share(total.cached)})`, value: number(total.cached) },
          { label: `in use (${share(total.active)})`, value: number(total.active) },
          { label: "blocks in total", value: number(total.total) },
        ]}
        words={`A prompt reuses the leading blocks of ${state.block_size} tokens that its worker still has, after comparing their tokens. Unused blocks stay until the space is needed.`}
      />
      <FeatureCard
        title="Continuous batching"
        figures={[
          { label: "running", value: number(total.running) },
          { label: "slots", value: number(total.slots) },
        ]}
        words="Requests join and leave a worker's batch between two steps. No request waits for a batch to fill or to end."
      />
      <FeatureCard
        title="Chunked prefill"
        figures={[
          { label: "not yet in a batch", value: number(total.waiting) },
          { label: "ITL p95, 60 s", value: ms(window?.itl_ms.p95) },
        ]}
        words="A step has a budget of tokens: running answers come first, prompts fill the rest, and what does not fit continues in the next step. A long prompt slows answers down but does not stop them."
      />
      <FeatureCard
        title="Speculative decoding"
        mark={state.simulated ? "simulated" : undefined}
        figures={[
          { label: spec ? `kept: ${number(spec.accepted)} of ${number(spec.drafted)}` : "drafted tokens kept", value: percent(spec?.acceptancePct) },
          { label: "tokens per step", value: number(spec?.tokensPerStep, 2) },
        ]}
        words={spec ? "A draft proposes tokens, and the model keeps those that it would have generated. On simulated workers, acceptance is drawn from probabilities per position." : "The current workers do not draft; other profiles do."}
      >
        <DraftPositions workers={state.workers} />
      </FeatureCard>
      <FeatureCard
        title="One queue, with cancellation"
        figures={[
          { label: "queued now", value: number(state.requests.queued) },
          { label: "in flight", value: number(state.requests.in_flight) },
        ]}
        words="When every worker is full, mode KV-aware lets requests wait in one queue, and a freed slot takes the oldest request whose prefix that worker holds. A client that hangs up frees its slot within one step of the engine."
      />
    </>
  );
}

/** How others reach it. */
function Reaching({ state }: { state: State }) {
  const base = apiBase(state, window.location);
  const curl = `curl ${base}/v1/chat/completions -H 'content-type: application/json' \\\n  -d '{"model":"${state.model}","stream":true,"messages":[{"role":"user","content":"What is a TLB?"}]}'`;
  return (
    <>
      <FeatureCard wide title="OpenAI-compatible API" figures={[]} words="Any OpenAI client works: chat and plain completions, streamed or whole. Errors are OpenAI error objects that name the field.">
        <pre>{curl}</pre>
        <div className="actions">
          <CopyButton text={curl} label="Copy the command" />
        </div>
      </FeatureCard>
      <FeatureCard title="Metrics under established names" figures={[]} words="Prometheus text under the names of NVIDIA Dynamo, TensorRT-LLM and the DCGM exporter, so that existing panels show this system. GPU figures of simulated workers carry a label that says so.">
        <pre>{"dynamo_frontend_*   dynamo_component_*\ntrtllm_*            DCGM_FI_DEV_*\nloadgen_*           homing_*"}</pre>
        <div className="actions">
          <a href={`${base}/metrics`} target="_blank" rel="noreferrer">
            Open /metrics
          </a>
        </div>
      </FeatureCard>
    </>
  );
}

function Laboratory({ status, baseline }: { status: BaselineStatus; baseline: Baseline | null }) {
  return (
    <FeatureCard
      title="Virtual-time laboratory"
      mark="simulated"
      figures={laboratoryFigures(status, baseline)}
      words="The same router, scheduler and block pool, driven by a clock that jumps from event to event: hours of load in seconds, with equal results for equal seeds. It computes the baseline on the dashboard."
    />
  );
}

function laboratoryFigures(status: BaselineStatus, baseline: Baseline | null): Figure[] {
  if (status.state === "computing") return [{ label: "cells computed", value: `${status.done} of ${status.total}` }];
  if (status.state !== "ready") return [{ label: "baseline", value: status.state === "failed" ? "failed" : "none" }];
  const cells = baseline?.levels.flatMap((level) => level.cells) ?? [];
  return [
    { label: "baseline run", value: status.run_id.replace(/^virtual-/, "") },
    { label: "levels of load", value: number(baseline?.levels.length) },
    { label: "requests", value: number(baseline && cells.reduce((sum, cell) => sum + cell.requests, 0)) },
  ];
}

function Load({ state: { load } }: { state: State }) {
  if (!load) return null;
  return (
    <FeatureCard
      wide
      title="Load generator"
      figures={[
        { label: "state", value: load.phase },
        { label: "conversations", value: number(load.conversations.active) },
        { label: "requests/s, 60 s", value: number(load.window.rps, 1) },
      ]}
      words="Holds conversations as users would: each turn resends the whole history. It measures latency at the client, not what the server reports about itself."
    >
      <ul className="small muted">
        {settingsWords(load.settings).map((words) => (
          <li key={words}>{words}</li>
        ))}
      </ul>
    </FeatureCard>
  );
}
