/** Text of a conversation, made ready to be read. */

/** Paragraphs are separated by blank lines. */
export function paragraphs(text: string): string[] {
  return text
    .split(/\n\s*\n/)
    .map((part) => part.trim())
    .filter((part) => part !== "");
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
