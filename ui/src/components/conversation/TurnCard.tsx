/** One turn: its figures, where its time went, who answered and why, and the words. */
import type { RequestRecord, Turn } from "../../api/types";
import { DASH, ms, number, percent, seconds } from "../../lib/format";
import { cachedShare } from "../../lib/timeline";
import { WorkerName } from "../WorkerName";
import { Bubble } from "./Bubble";
import { RoutingDetails } from "./RoutingDetails";
import { TurnTimeline } from "./TurnTimeline";
import "./TurnCard.css";

type Props = { number: number; turn: Turn; /** The longest turn of the conversation. */ scaleMs: number; /** Its answer may still come. */ pending: boolean };

export function TurnCard({ number: turnNumber, turn, scaleMs, pending }: Props) {
  const { answered } = turn;
  return (
    <section className="panel turn-card" aria-label={`Turn ${turnNumber}`}>
      <header>
        <h2>Turn {turnNumber}</h2>
        {answered?.worker !== undefined && <WorkerName worker={answered.worker} />}
      </header>
      {answered && <Metrics record={answered} />}
      {answered && <TurnTimeline record={answered} scaleMs={scaleMs} />}
      {answered?.routing && <RoutingDetails routing={answered.routing} worker={answered.worker} />}
      {turn.failed.length > 0 && <FailedAttempts failed={turn.failed} />}
      <div className="talk">
        <Bubble who="User" text={turn.user} tokens={turnNumber === 1 ? (answered?.prompt_tokens ?? null) : null} />
        {turn.assistant !== null && <Bubble who="Assistant" text={turn.assistant} tokens={answered?.output_tokens ?? null} />}
        {turn.assistant === null && <NoAnswer pending={pending} />}
      </div>
    </section>
  );
}

function NoAnswer({ pending }: { pending: boolean }) {
  return pending ? (
    <div className="bubble assistant waiting" role="status">
      Waiting for the first token, or the answer is under way
    </div>
  ) : (
    <p className="muted">No answer was received.</p>
  );
}

function Metrics({ record }: { record: RequestRecord }) {
  const share = cachedShare(record);
  return (
    <dl className="turn-metrics">
      <div>
        <dt title="Time to first token, as the client measured it">TTFT</dt>
        <dd>{ms(record.ttft_ms)}</dd>
      </div>
      <div>
        <dt title="Inter-token latency: the median gap between tokens">ITL p50</dt>
        <dd>{ms(record.itl_p50_ms)}</dd>
      </div>
      <div>
        <dt title="Tokens of the answer">Tokens</dt>
        <dd>
          {number(record.output_tokens)} <small>prompt {number(record.prompt_tokens)}</small>
        </dd>
      </div>
      <div>
        <dt title="From sending the request to the last token">Latency</dt>
        <dd>{seconds(record.e2e_ms)}</dd>
      </div>
      <div className="wide">
        <dt title="Prompt tokens that the worker's KV cache held, as the engine counted them">Cached</dt>
        <dd>
          {percent(share)}{" "}
          <small>
            {share === null ? DASH : `${number(record.cached_tokens)} of ${number(record.prompt_tokens)} prompt tokens cached`}
          </small>
        </dd>
      </div>
    </dl>
  );
}

function FailedAttempts({ failed }: { failed: RequestRecord[] }) {
  return (
    <ul className="failed">
      {failed.map((record) => (
        <li key={`${record.attempt}/${record.sent_s}`}>
          <span className="badge error">attempt {record.attempt + 1} failed</span> <b>{record.error?.kind ?? "unknown"}</b>: {record.error?.message ?? "no reason given"}
        </li>
      ))}
    </ul>
  );
}
