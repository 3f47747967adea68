/** How many conversations the load generator keeps up, changed while it runs. */
import { api } from "../../api/client";
import type { Connection } from "../../api/feed";
import type { Snapshot, State } from "../../api/types";
import { obstacle } from "../../lib/controls";
import { number } from "../../lib/format";
import { report } from "../../lib/notices";
import { useWish } from "../../lib/wish";

export const LEVELS = { least: 60, most: 180, step: 20 } as const;
export const REST_MS = 300;
const ALL = Array.from({ length: (LEVELS.most - LEVELS.least) / LEVELS.step + 1 }, (_, index) => LEVELS.least + index * LEVELS.step);

/** Where the thumb stands: a server may run at any number. */
export const nearestLevel = (concurrency: number): number =>
  Math.min(LEVELS.most, Math.max(LEVELS.least, LEVELS.least + LEVELS.step * Math.round((concurrency - LEVELS.least) / LEVELS.step)));

export function ConcurrencySlider({ connection, state, load }: { connection: Connection; state: State; load: Snapshot }) {
  const [shown, wish] = useWish(load.settings.concurrency, (concurrency) => api.settings({ concurrency }), REST_MS, report);
  const why = obstacle(connection, state);
  const { active, in_flight } = load.conversations;
  return (
    <div className="slider" title={why ?? undefined}>
      <label htmlFor="concurrency">Conversations at once</label>
      <output htmlFor="concurrency">{number(shown)}</output>
      <div className="track">
        <input
          id="concurrency"
          type="range"
          min={LEVELS.least}
          max={LEVELS.most}
          step={LEVELS.step}
          value={nearestLevel(shown)}
          disabled={why !== null}
          aria-valuetext={`${shown} conversations`}
          onChange={(event) => wish(Number(event.target.value))}
        />
        <div className="levels" aria-hidden="true">
          {ALL.map((level) => (
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
