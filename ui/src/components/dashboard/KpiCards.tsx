/** Six figures at a glance, round robin's beside them, and what visitors ask about them. */
import { useId } from "preact/compat";
import { type Kpi, kpis } from "../../lib/kpi";
import { rrOf, type Scene } from "../../lib/comparable";
import { type Question, type QuestionId, questionOf, questions } from "../../lib/questions";

/** Which question a card answers, by its label. */
const ASKED: Record<string, QuestionId> = { RPS: "rps", TOPS: "tops", "KV Cache Hit": "hits" };

export function KpiCards({ scene }: { scene: Scene }) {
  const all = questions(scene.state, scene.baseline);
  return (
    <section aria-label="Key figures">
      <div className="kpis">
        {kpis(scene.state, rrOf(scene)).map((kpi) => {
          const asked = ASKED[kpi.label];
          return <Card key={kpi.label} kpi={kpi} asked={asked ? questionOf(all, asked) : null} simulated={scene.baseline?.simulated ?? false} />;
        })}
      </div>
    </section>
  );
}

function Card({ kpi, asked, simulated }: { kpi: Kpi; asked: Question | null; /** Round robin's figures are. */ simulated: boolean }) {
  const id = useId();
  const sweep = simulated ? "simulated sweep" : "sweep";
  return (
    <div className={kpi.alarm ? "kpi alarm" : "kpi"}>
      <h3>
        <span>{kpi.label}</span>
        <button type="button" className="ask" aria-label={asked?.question ?? `What is ${kpi.label}?`} aria-describedby={id}>?</button>
      </h3>
      <span className="figure">{kpi.value}</span>
      <span className="muted small">
        {kpi.detail || kpi.unit}
        {kpi.beside !== "" && <span className="beside">RR {kpi.beside}</span>}
      </span>
      <p id={id} role="tooltip" className="answer">
        {asked && <b>{asked.question}</b>} {kpi.hint} {kpi.detail} {asked?.answer} {kpi.beside !== "" && `RR: round robin in the ${sweep} at this level.`}
      </p>
    </div>
  );
}
