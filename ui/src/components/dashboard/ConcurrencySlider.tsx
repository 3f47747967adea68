/** How many conversations the load generator keeps up, changed while it runs. */
import { api } from "../../api/client";
import type { Connection } from "../../api/feed";
import type { Snapshot, State } from "../../api/types";
import { obstacle } from "../../lib/controls";
import { number } from "../../lib/format";
import { report } from "../../lib/notices";
import { useWish } from "../../lib/wish";

export type Levels = { least: number; most: number; step: number };
export const LEVELS: Levels = { least: 60, most: 180, step: 20 };
/** For models that a processor computes. */
export const FEW: Levels = { least: 2, most: 16, step: 2 };
export const REST_MS = 300;

export const levelsOf = (state: State): Levels => (state.workers.some((worker) => worker.engine === "llama") ? FEW : LEVELS);

const all = ({ least, most, step }: Levels): number[] => Array.from({ length: (most - least) / step + 1 }, (_, index) => least + index * step);

/** Where the thumb stands: a server may run at any number. */
export const nearestLevel = (concurrency: number, { least, most, step }: Levels = LEVELS): number =>
  Math.min(most, Math.max(least, least + step * Math.round((concurrency - least) / step)));

export function ConcurrencySlider({ connection, state, load }: { connection: Connection; state: State; load: Snapshot }) {
  const [shown, wish] = useWish(load.settings.concurrency, (concurrency) => api.settings({ concurrency }), REST_MS, report);
  const why = obstacle(connection, state);
  const levels = levelsOf(state);
  const { active, in_flight } = load.conversations;
  return (
    <div className="slider" title={why ?? undefined}>
      <label htmlFor="concurrency">Conversations at once</label>
      <output htmlFor="concurrency">{number(shown)}</output>
      <div className="track">
        <input
          id="concurrency"
          type="range"
          min={levels.least}
          max={levels.most}
          step={levels.step}
          value={nearestLevel(shown, levels)}
          disabled={why !== null}
          aria-valuetext={`${shown} conversations`}
          onChange={(event) => wish(Number(event.target.value))}
        />
        <div className="levels" aria-hidden="true">
          {all(levels).map((level) => (
            <span key={level} className={level === shown ? "here" : ""}>{level}</span>
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
