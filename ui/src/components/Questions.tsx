/** What visitors ask, answered. */
import type { Baseline, State } from "../api/types";
import { questions } from "../lib/questions";
import "./Questions.css";

export function Questions({ state, baseline }: { state: State; baseline: Baseline | null }) {
  return (
    <section className="panel questions" aria-labelledby="questions-title">
      <h2 id="questions-title">Questions that visitors ask</h2>
      <dl>
        {questions(state, baseline).map(({ id, question, answer }) => (
          <div key={id}>
            <dt>{question}</dt>
            <dd>{answer}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
