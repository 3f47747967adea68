/** What user or assistant said. Long messages are folded to some lines. */
import { useId, useState } from "preact/compat";
import { number } from "../../lib/format";
import { FOLD_ABOVE_CHARACTERS, passages, splitMark } from "../../lib/words";
import "./Bubble.css";

type Props = { who: "User" | "Assistant"; text: string; /** Of the message, where known. */ tokens: number | null };

export function Bubble({ who, text, tokens }: Props) {
  const [open, setOpen] = useState(false);
  const id = useId();
  const said = splitMark(text);
  const foldable = said.text.length > FOLD_ABOVE_CHARACTERS;
  const size = tokens === null ? `${number(said.text.length)} characters` : `${number(tokens)} tokens`;
  return (
    <div className={`bubble ${who.toLowerCase()}`}>
      <div className="who">
        {who} {said.simulated && <span className="badge simulated">simulated</span>}
      </div>
      <div id={id} className={foldable && !open ? "text folded" : "text"}>
        {passages(said.text).map(({ heading, text: words }, index) => (
          // A message does not change once it is shown.
          // oxlint-disable-next-line react/no-array-index-key
          <p key={index} className={heading ? "heading" : undefined}>{words}</p>
        ))}
      </div>
      {foldable && (
        <button type="button" className="quiet" aria-expanded={open} aria-controls={id} onClick={() => setOpen(!open)}>
          {open ? "Show less" : `Show all (${size})`}
        </button>
      )}
    </div>
  );
}
