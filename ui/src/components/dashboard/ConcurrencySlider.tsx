/** How many conversations the load generator keeps up, changed while it runs. */
import { useRef } from "preact/compat";
import { api } from "../../api/client";
import type { Connection } from "../../api/feed";
import type { Baseline, Snapshot, State } from "../../api/types";
import { obstacle } from "../../lib/controls";
import { number } from "../../lib/format";
import { report } from "../../lib/notices";
import { marks, nearestMark, type Scale, scaleOf } from "../../lib/scale";
import { useWish } from "../../lib/wish";

export const REST_MS = 300;
const MOST_NUMBERS = 7;

type Props = { connection: Connection; state: State; load: Snapshot; baseline: Baseline | null };

export function ConcurrencySlider({ connection, state, load, baseline }: Props) {
  const [shown, wish] = useWish(load.settings.concurrency, (concurrency) => api.settings({ concurrency }), REST_MS, report);
  const why = obstacle(connection, state);
  const kept = useRef<{ scale: Scale; baseline: Baseline | null } | null>(null);
  const scale = scaleOf(state, baseline, shown, kept.current?.baseline === baseline ? kept.current.scale : null);
  kept.current = { scale, baseline };
  const levels = marks(scale);
  // Of many marks some have a number, the one in force among them.
  const every = Math.ceil(levels.length / MOST_NUMBERS);
  const first = levels.indexOf(nearestMark(shown, scale)) % every;
  const { active, in_flight } = load.conversations;
  return (
    <div className="slider" title={why ?? undefined}>
      <label htmlFor="concurrency">Conversations at once</label>
      <output htmlFor="concurrency">{number(shown)}</output>
      <div className="track">
        <input
          id="concurrency"
          type="range"
          min={scale.least}
          max={scale.most}
          step={scale.step}
          value={nearestMark(shown, scale)}
          disabled={why !== null}
          aria-valuetext={`${shown} conversations`}
          onChange={(event) => wish(Number(event.currentTarget.value))}
        />
        <div className="levels" aria-hidden="true">
          {levels.map((level, index) => (
            <span key={level} className={level === shown ? "here" : ""}>{index % every === first && level}</span>
          ))}
        </div>
      </div>
      <p className="muted small">
        {active > shown ? `${number(active)} active until the surplus has ended` : `${number(active)} of ${number(shown)} active`}, {number(in_flight)} waiting for or reading an answer
      </p>
    </div>
  );
}

/** Open loop: conversations arrive whether or not others have ended. */
export function Arrivals({ load, perSecond }: { load: Snapshot; perSecond: number }) {
  const { active, in_flight } = load.conversations;
  return (
    <div className="slider arrivals">
      <span>New conversations</span>
      <output>{number(perSecond, 2)}/s</output>
      <p className="muted small">
        {number(active)} active, {number(in_flight)} waiting for or reading an answer
      </p>
    </div>
  );
}
