/**
 * What pages call workers, their colours, and which of them stay.
 *
 * Ids are text: some are drawn from all 64 bits, and JavaScript would make one number of neighbours.
 * The server gives each worker a small number, and every state brings the numbers of those that are here.
 */
import type { WorkerState } from "../api/types";

const COLOURS = 8;
/** Digits of ids that somebody counts, which are numbers already: below 1000, as the server has it. */
const COUNTED_DIGITS = 3;
/** Of a longer id that nobody has numbered, the last digits must do. */
const LAST_DIGITS = 4;

const numbers = new Map<string, number>();

/** Those that stay: while workers are replaced, the old ones finish what they run. */
export const staying = (workers: readonly WorkerState[]): WorkerState[] => workers.filter((worker) => !worker.draining);

/** Keeps the numbers of a state's workers. One that has left keeps its own until somebody else has it. */
export function learnNumbers(workers: ReadonlyArray<Pick<WorkerState, "id" | "number">>): void {
  const present = new Map(workers.map(({ id, number }) => [id, number]));
  const taken = new Set(present.values());
  for (const [id, number] of numbers) if (!present.has(id) && taken.has(number)) numbers.delete(id);
  for (const [id, number] of present) numbers.set(id, number);
}

const isNumeric = (id: string) => /^\d+$/.test(id);
const isCounted = (id: string) => isNumeric(id) && id.length <= COUNTED_DIGITS;

/** `null` of a worker that nobody has numbered, and whose own number, if it has one, is another's. */
function numberOf(id: string): number | null {
  const own = isCounted(id) ? Number(id) : null;
  return numbers.get(id) ?? (own !== null && [...numbers.values()].includes(own) ? null : own);
}

/** `worker 3`; `worker …3142` of one that is gone, and the name itself where a server gives names. */
export function workerName(id: string): string {
  const number = numberOf(id);
  if (number !== null) return `worker ${number}`;
  return isNumeric(id) ? `worker …${id.slice(-LAST_DIGITS)}` : id;
}

/** The id where the name does not have all of it, for whoever points at it. */
export function fullName(id: string): string | undefined {
  const number = numberOf(id);
  const isWhole = number === null ? !isNumeric(id) : String(number) === id;
  return isWhole ? undefined : `worker id ${id}`;
}

/** The same on every page: a CSS variable of tokens.css. */
export function workerColour(id: string): string {
  const number = numberOf(id);
  return number === null ? "var(--muted)" : `var(--worker-${number % COLOURS})`;
}

/** In the order of their numbers, those without one last. */
export function byNumber(one: string, other: string): number {
  const [first, second] = [numberOf(one) ?? Number.MAX_SAFE_INTEGER, numberOf(other) ?? Number.MAX_SAFE_INTEGER];
  return first - second || one.localeCompare(other);
}
