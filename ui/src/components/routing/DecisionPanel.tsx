/** The latest decisions, and one of them in full: who was weighed, who won, and how it turned out. */
import { useState } from "preact/compat";
import type { Decision, RouterState } from "../../api/types";
import { actualTtftMs, outcomeWords } from "../../lib/cost";
import { DASH, ms, number } from "../../lib/format";
import { modeName } from "../../lib/mode";
import { plainReason } from "../../lib/reason";
import { Notice } from "../Notice";
import { WorkerName } from "../WorkerName";
import { CostTable } from "./CostTable";
import "./DecisionPanel.css";

type Props = { decisions: Decision[]; router: RouterState; /** A decision's number; `null` follows the latest. */ pinned: number | null; pin(number: number | null): void };

export function DecisionPanel({ decisions, router, pinned, pin }: Props) {
  // The list moves on within seconds; what was pinned stays, and is renewed as long as it is listed.
  const [kept, setKept] = useState<Decision | null>(null);
  const listed = decisions.find((decision) => decision.number === pinned) ?? null;
  if (listed && listed !== kept) setKept(listed);
  const shown = pinned === null ? decisions[0] : (listed ?? (kept?.number === pinned ? kept : undefined));
  return (
    <section className="panel decisions">
      <header className="page-head">
        <h2>{pinned === null ? "Last decision" : `Decision #${number(pinned)}`}</h2>
        {pinned === null ? <span className="muted small">follows the latest; click one to pin it</span> : <button type="button" onClick={() => pin(null)}>Follow the latest</button>}
      </header>
      {decisions.length === 0 && <Notice>Nothing has been routed yet.</Notice>}
      <div className="columns">
        <ol className="list" aria-label="The latest decisions">
          {decisions.map((decision) => (
            <li key={decision.number}>
              <button type="button" aria-pressed={decision === shown} onClick={() => pin(decision.number)}>
                <span className="nums">#{number(decision.number)}</span> <WorkerName worker={decision.winner} />
              </button>
            </li>
          ))}
        </ol>
        <div className="one">
          {shown && <One decision={shown} router={router} />}
          {!shown && pinned !== null && <Notice>Decision #{number(pinned)} is no longer among the latest.</Notice>}
        </div>
      </div>
    </section>
  );
}

function One({ decision, router }: { decision: Decision; router: RouterState }) {
  return (
    <>
      <p className="verdict">
        <b className="nums">#{number(decision.number)}</b> <span className="badge">{modeName(decision.mode)}</span> {plainReason(decision, decision.winner)}
      </p>
      <CostTable decision={decision} router={router} />
      <dl className="outcome">
        <div>
          <dt>Prompt</dt>
          <dd>{number(decision.prompt_tokens)} tokens <small>{number(decision.blocks)} full blocks</small></dd>
        </div>
        <div>
          <dt>Cached tokens</dt>
          <dd>{number(decision.actual_cached_tokens)} <small>expected {number(decision.predicted_cached_tokens)}</small></dd>
        </div>
        <div>
          <dt>First token after</dt>
          <dd>{ms(actualTtftMs(decision))} <small>expected {decision.predicted_ttft_ms > 0 ? ms(decision.predicted_ttft_ms) : DASH}</small></dd>
        </div>
        <div>
          <dt>Waited for a slot</dt>
          <dd>{ms(decision.queued_ms)}</dd>
        </div>
        <div>
          <dt>Now</dt>
          <dd>{outcomeWords(decision)}</dd>
        </div>
      </dl>
      <details className="muted small">
        <summary>In the router's own terms</summary>
        {decision.reason}
      </details>
      {decision.forwarded && <p className="muted small">Sent to the engine's own server because of <code>{decision.forwarded}</code>.</p>}
      {decision.normalized && <p className="muted small">A line that changes with every request was removed from the head of the prompt.</p>}
    </>
  );
}
