/** One thing that the system does: its figures now, and a sentence about it. */
import type { ReactNode } from "preact/compat";
import "./FeatureCard.css";

export type Figure = { label: string; value: string };
type Props = { title: string; figures: Figure[]; words: string; /** Such as "simulated". */ mark?: string | undefined; /** Takes the room of two. */ wide?: boolean; children?: ReactNode };

export function FeatureCard({ title, figures, words, mark, wide = false, children }: Props) {
  return (
    <section className={wide ? "panel feature wide" : "panel feature"} aria-label={title}>
      <h2>
        {title} {mark && <span className="badge simulated">{mark}</span>}
      </h2>
      {figures.length > 0 && (
        <dl>
          {figures.map(({ label, value }) => (
            <div key={label}>
              <dd>{value}</dd>
              <dt>{label}</dt>
            </div>
          ))}
        </dl>
      )}
      <p>{words}</p>
      {children}
    </section>
  );
}
