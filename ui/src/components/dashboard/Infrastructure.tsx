/** The workers: what their GPUs do, how full their batches are and what their caches hold. */
import type { State, WorkerState } from "../../api/types";
import { DASH, gibibytes, number, percent } from "../../lib/format";
import { gpuSummary, memoryPercent, room, work } from "../../lib/hardware";
import { modeName } from "../../lib/mode";
import { fullName, workerColour, workerName } from "../../lib/workers";

export function Infrastructure({ state }: { state: State }) {
  const { gpu, workers, models } = state;
  const several = models.length > 1;
  return (
    <section className="panel infrastructure" aria-labelledby="infrastructure-title">
      <header>
        <h2 id="infrastructure-title">Infrastructure</h2>
        <p className="muted small">
          {gpuSummary(workers)}
          {gpuSummary(workers) !== "" && " · "}
          {several ? models.map((model) => `${model.name} (${modeName(model.mode)}, ${workersOf(model.workers)})`).join(" · ") : state.model}
        </p>
      </header>
      {gpu.kind === "prometheus" && gpu.error !== null && (
        <p className="warning" role="status">Prometheus unavailable: {gpu.error}</p>
      )}
      <ul className="workers">
        {workers.map((worker) => (
          <Worker key={worker.id} worker={worker} several={several} />
        ))}
      </ul>
      {workers.length === 0 && <p className="muted">No worker is connected.</p>}
    </section>
  );
}

/** No line ends within an option, such as `--prometheus-url`. */
const unbroken = (text: string) => text.split(/(--[a-z-]+)/).map((part, index) => (index % 2 === 1 ? <span key={index} className="option">{part}</span> : part));

const workersOf = (count: number): string => `${number(count)} ${count === 1 ? "worker" : "workers"}`;

const WORK = { idle: "idle", working: "working", unknown: "" } as const;
const ROOM = { free: { tone: "calm", word: "" }, nearly: { tone: "busy", word: "nearly full" }, full: { tone: "hot", word: "full, others wait" } } as const;

function Worker({ worker, several }: { worker: WorkerState; several: boolean }) {
  const { cache, gpu } = worker;
  // A server elsewhere says nothing of its workers' caches.
  const known = cache.total_blocks > 0;
  const utilization = worker.utilization === null ? null : 100 * worker.utilization;
  const memory = memoryPercent(worker);
  const each = gpu.count > 1 ? `each of ${gpu.count} GPUs` : "GPU";
  const held = cache.active_blocks + cache.cached_blocks;
  const { tone, word } = ROOM[room(worker)];
  return (
    <li className={worker.draining ? "worker draining" : "worker"} style={{ borderTopColor: workerColour(worker.id) }}>
      <h3 title={fullName(worker.id)}>
        {workerName(worker.id)}
        {worker.draining && <span className="badge near" title="Takes no new requests.">draining</span>}
        {worker.simulated && <span className="badge simulated">simulated</span>}
      </h3>
      <p className="muted small">
        {worker.name !== `worker-${worker.id}` && `${worker.name}, `}
        {worker.engine}
        {gpu.kind !== "" && `, ${gpu.count} × ${gpu.kind}`}
        {several && worker.model !== null && <span className="served">serves {worker.model}</span>}
      </p>
      <Meter
        label="In flight"
        value={worker.slots > 0 ? (100 * worker.in_flight) / worker.slots : null}
        text={worker.slots > 0 ? `${number(worker.in_flight)} of ${number(worker.slots)} slots` : number(worker.in_flight)}
        tone={tone}
        word={word}
      />
      <Meter label={`Utilisation, ${each}`} value={utilization} text={percent(utilization, 0)} tone="plain" word={WORK[work(worker.utilization)]} />
      <Meter label={`Memory, ${each}`} value={memory} text={memory === null ? DASH : `${percent(memory, 0)} · ${gibibytes(worker.memory_used_bytes)} of ${gibibytes(gpu.memory_bytes)}`} tone="plain" word="" />
      <dl>
        <dt>Cache blocks</dt>
        <dd title={known ? `${number(cache.active_blocks)} used by running requests, ${number(cache.cached_blocks)} kept for later ones` : undefined}>
          {known ? `${number(held)} of ${number(cache.total_blocks)}` : DASH}
        </dd>
        <dt>Cache hit since start</dt>
        <dd>{percent(cache.hit_pct)}</dd>
      </dl>
      {worker.unknown !== null && <p className="muted small unknown">Not known: {unbroken(worker.unknown)}</p>}
    </li>
  );
}

function Meter({ label, value, text, tone, word }: { label: string; value: number | null; text: string; tone: string; word: string }) {
  return (
    <div className={`meter ${tone}`}>
      <div className="small">
        <span className="muted">{label}</span>
        <span>
          {word && <span className="word">{word}</span>} <b>{text}</b>
        </span>
      </div>
      <div className="bar-track" aria-hidden="true">
        <div style={{ width: `${Math.min(100, Math.max(0, value ?? 0))}%` }} />
      </div>
    </div>
  );
}
