/** The share of prompt tokens that came out of caches, first turns and later ones apart. */
import type { Snapshot, TurnFigures } from "../../api/types";
import { ms, number, percent } from "../../lib/format";
import "./HitRates.css";

export function HitRates({ load }: { load: Snapshot }) {
  const { initial, followup, seconds } = load.window;
  const starters = load.workload.unique
    ? "Every conversation starts from a text of its own, so a first turn finds little in any cache."
    : `Conversations start from ${number(load.workload.starters)} shared articles, so a first turn hits the cache of a worker that has seen its article.`;
  return (
    <section className="panel">
      <header>
        <h2>Hit rate now</h2>
        <span className="muted small">prompt tokens from a cache, last {number(seconds)} s</span>
      </header>
      <div className="hit-rates">
        <One label="First turns" figures={initial} words={starters} />
        <One label="Later turns" figures={followup} words="A later turn resends the whole conversation. It hits the cache of the worker that computed the earlier turns, where only the new tokens are left to compute." />
      </div>
    </section>
  );
}

function One({ label, figures, words }: { label: string; figures: TurnFigures; words: string }) {
  return (
    <div>
      <div className="top">
        <span>{label}</span>
        <b>{percent(figures.cached_pct)}</b>
      </div>
      <span className="track" aria-hidden="true">
        <span style={{ width: `${figures.cached_pct ?? 0}%` }} />
      </span>
      <p className="small nums">
        TTFT p50 {ms(figures.ttft_ms.p50)}, p95 {ms(figures.ttft_ms.p95)} <span className="muted">({number(figures.ttft_ms.samples)} requests)</span>
      </p>
      <p className="muted small">{words}</p>
    </div>
  );
}
