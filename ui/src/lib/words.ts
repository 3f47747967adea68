/** Text of a conversation, made ready to be read. */

export type Passage = { heading: boolean; text: string };

/** Paragraphs are separated by blank lines; a line that Markdown marks with `#` is a heading of its own. */
export function passages(text: string): Passage[] {
  const found: Passage[] = [];
  for (const part of text.split(/\n\s*\n/)) {
    let lines: string[] = [];
    const close = () => {
      const said = lines.join("\n").trim();
      if (said !== "") found.push({ heading: false, text: said });
      lines = [];
    };
    for (const line of part.split("\n")) {
      const title = /^\s{0,3}#{1,6}\s+(.*?)[\s#]*$/.exec(line)?.[1];
      if (title === undefined) {
        lines.push(line);
        continue;
      }
      close();
      if (title !== "") found.push({ heading: true, text: title });
    }
    close();
  }
  return found;
}

export const SIMULATED_MARK = "[simulated]";

/** The mark that opens a simulated answer, and its number, are shown as a badge, not as text. */
export function splitMark(text: string): { simulated: boolean; text: string } {
  return text.startsWith(SIMULATED_MARK)
    ? { simulated: true, text: text.slice(SIMULATED_MARK.length).replace(/^ #\d*/, "").trimStart() }
    : { simulated: false, text };
}

/** Longer messages are folded. */
export const FOLD_ABOVE_CHARACTERS = 900;
