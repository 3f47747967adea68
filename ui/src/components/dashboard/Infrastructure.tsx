/** The workers: how busy their GPUs are and what their caches hold. */
import type { State, WorkerState } from "../../api/types";
import { gigabytes, number, percent } from "../../lib/format";
import { gpuSummary, heat, memoryPercent } from "../../lib/hardware";
import { workerColour } from "../../lib/mode";

export function Infrastructure({ state }: { state: State }) {
  const { gpu, workers } = state;
  return (
    <section className="panel infrastructure" aria-labelledby="infrastructure-title">
      <header>
        <h2 id="infrastructure-title">Infrastructure</h2>
        <p className="muted small">
          {gpuSummary(workers)} · {state.model}
        </p>
      </header>
      {gpu.kind === "prometheus" && gpu.error !== null && (
        <p className="warning" role="status">Prometheus unavailable: {gpu.error}</p>
      )}
      <ul className="workers">
        {workers.map((worker) => (
          <Worker key={worker.id} worker={worker} />
        ))}
      </ul>
      {workers.length === 0 && <p className="muted">No worker is connected.</p>}
    </section>
  );
}

const WORDS = { calm: "calm", busy: "busy", hot: "hot", unknown: "unknown" } as const;

function Worker({ worker }: { worker: WorkerState }) {
  const { cache, gpu } = worker;
  const utilization = worker.utilization === null ? null : 100 * worker.utilization;
  const memory = memoryPercent(worker);
  const each = gpu.count > 1 ? `each of ${gpu.count} GPUs` : "GPU";
  const held = cache.active_blocks + cache.cached_blocks;
  return (
    <li className={worker.draining ? "worker draining" : "worker"} style={{ borderTopColor: workerColour(worker.id) }}>
      <h3>
        {worker.name}
        {worker.draining && <span className="badge near" title="Takes no new requests.">draining</span>}
        {worker.simulated && <span className="badge simulated">simulated</span>}
      </h3>
      <p className="muted small">{worker.engine}, {gpu.count} × {gpu.kind}</p>
      <Meter label={`Utilisation, ${each}`} value={utilization} text={percent(utilization, 0)} tone={heat(worker.utilization)} word={WORDS[heat(worker.utilization)]} />
      <Meter label={`Memory, ${each}`} value={memory} text={`${percent(memory, 0)} · ${gigabytes(worker.memory_used_bytes)} of ${gigabytes(gpu.memory_bytes)}`} tone="plain" word="" />
      <dl>
        <dt>In flight</dt>
        <dd>{number(worker.in_flight)} of {number(worker.slots)} slots</dd>
        <dt>Cache blocks</dt>
        <dd title={`${number(cache.active_blocks)} used by running requests, ${number(cache.cached_blocks)} kept for later ones`}>
          {number(held)} of {number(cache.total_blocks)}
        </dd>
        <dt>Cache hit since start</dt>
        <dd>{percent(cache.hit_pct)}</dd>
      </dl>
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
