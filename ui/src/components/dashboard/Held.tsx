/** A figure that is held to an objective: colour, a sign and words say how it stands. */
import type { Standing } from "../../lib/slo";

const WORDS: Record<Standing, string> = { good: "within the objective", near: "close to the objective", missed: "misses the objective", unknown: "" };
const SIGNS: Record<Standing, string> = { good: "✓", near: "~", missed: "✕", unknown: "" };

export function Held({ text, stands, more = "" }: { text: string; stands: Standing; /** For the title. */ more?: string }) {
  if (stands === "unknown") return <span className="value">{text}</span>;
  return (
    <span title={`${WORDS[stands]}${more}`}>
      <span className={`value ${stands}`}>{text}</span>
      <span className="visually-hidden">, {WORDS[stands]}</span>
      <span className={`stand ${stands}`} aria-hidden="true">{SIGNS[stands]}</span>
    </span>
  );
}
