/** Intake, prefill and decode of one turn, on the scale of the longest turn of its conversation. */
import type { RequestRecord } from "../../api/types";
import { ms, seconds } from "../../lib/format";
import { PHASE_HINT, PHASE_LABEL, type Part, segments, timeline } from "../../lib/timeline";
import "./TurnTimeline.css";

const figure = (part: Part) => (part.ms < 1000 ? ms(part.ms) : seconds(part.ms));

export function TurnTimeline({ record, scaleMs }: { record: RequestRecord; scaleMs: number }) {
  const line = timeline(record);
  if (!line) return null;
  const shown = segments(line, scaleMs);
  const widened = shown.filter((segment) => segment.widened);
  return (
    <div className="timeline">
      <div className="track" aria-hidden="true">
        {shown.map((segment) => (
          <span key={segment.phase} className={`segment ${segment.phase}`} style={{ width: `${100 * segment.share}%` }} />
        ))}
      </div>
      <p className="legend small">
        {line.parts.map((part) => (
          <span key={part.phase} title={PHASE_HINT[part.phase]}>
            <span className={`key ${part.phase}`} aria-hidden="true" />
            {PHASE_LABEL[part.phase]} <b>{figure(part)}</b>
          </span>
        ))}
        {widened.length > 0 && (
          <span className="muted">{widened.map((segment) => PHASE_LABEL[segment.phase]).join(" and ")} drawn wider than to scale, to be seen</span>
        )}
      </p>
    </div>
  );
}
