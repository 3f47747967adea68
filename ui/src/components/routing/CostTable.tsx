/** What the router weighed, worker by worker, with the sums written out. */
import type { Candidate, Decision, RouterState } from "../../api/types";
import { formula, noCost, TERMS, terms, weightOf, whyNot } from "../../lib/cost";
import { DASH, number } from "../../lib/format";
import { byNumber } from "../../lib/workers";
import { Scroll } from "../Scroll";
import { WorkerName } from "../WorkerName";
import "./CostTable.css";

export function CostTable({ decision, router }: { decision: Decision; router: RouterState }) {
  const timed = decision.mode === "kv";
  const blocks = decision.mode === "kv-blocks";
  const weight = blocks ? weightOf(decision, router) : null;
  const dearest = Math.max(0, ...decision.candidates.map((candidate) => candidate.cost ?? 0));
  const without = noCost(decision);
  return (
    <>
      <Scroll label="Costs by worker">
        <table className="costs">
          <thead>
            <tr>
              <th scope="col">Worker</th>
              <th scope="col" className="number" title="Leading blocks of the prompt that it holds">Cached blocks</th>
              <th scope="col" className="number" title="Blocks to compute until the first token, what is pending there included">Prefill blocks</th>
              <th scope="col" className="number" title="Blocks that its running requests use">Decode blocks</th>
              <th scope="col" className="number">In flight</th>
              {timed && TERMS.map((term) => <th key={term.key} scope="col" className="number" title={term.about}>{term.label}</th>)}
              {timed && <th scope="col" className="number">Sum, ms</th>}
              {blocks && <th scope="col" className="number">weight × prefill + decode = cost</th>}
              {timed && <th scope="col" className="bar"><span className="visually-hidden">Terms as a bar</span></th>}
              <th scope="col"><span className="visually-hidden">Chosen</span></th>
            </tr>
          </thead>
          <tbody>
            {[...decision.candidates].sort((one, other) => byNumber(one.worker, other.worker)).map((candidate) => (
              <tr key={candidate.worker} className={candidate.worker === decision.winner ? "chosen" : undefined}>
                <td><WorkerName worker={candidate.worker} /></td>
                <td className="number">{number(candidate.overlap_blocks)} of {number(decision.blocks)}</td>
                <td className="number">{number(candidate.prefill_blocks, 1)}</td>
                <td className="number">{number(candidate.decode_blocks)}</td>
                <td className="number">{number(candidate.in_flight)} of {number(candidate.slots)}</td>
                {timed && <TimeTerms candidate={candidate} dearest={dearest} />}
                {blocks && <td className="number mono">{candidate.cost === null ? DASH : formula(candidate, weight)}</td>}
                <td>{candidate.worker === decision.winner && <span className="badge good">✓ winner</span>}</td>
              </tr>
            ))}
            {decision.excluded.map(({ worker, why }) => (
              <tr key={worker} className="excluded">
                <td><WorkerName worker={worker} /></td>
                <td colSpan={timed ? 12 : blocks ? 6 : 5}>not a candidate: {whyNot(why)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {without && <p className="muted small">{without}</p>}
      {blocks && <p className="muted small">cost = overlap_score_weight × prefill blocks + decode blocks; the lowest wins. Weight {number(weight, 2)}.</p>}
      {timed && (
        <p className="muted small term-legend">
          Expected milliseconds: {TERMS.map((term) => <span key={term.key} title={term.about}><i className={term.key} /> {term.label}</span>)}
        </p>
      )}
    </>
  );
}

function TimeTerms({ candidate, dearest }: { candidate: Candidate; dearest: number }) {
  const parts = terms(candidate);
  return (
    <>
      {TERMS.map(({ key }) => <td key={key} className="number">{number(candidate[key], 1)}</td>)}
      <td className="number"><b>{number(candidate.cost, 1)}</b></td>
      <td className="bar">
        <span className="term-bar" aria-hidden="true">
          {parts?.map((part) => <i key={part.key} className={part.key} style={{ width: `${dearest > 0 ? (100 * part.ms) / dearest : 0}%` }} />)}
        </span>
      </td>
    </>
  );
}
