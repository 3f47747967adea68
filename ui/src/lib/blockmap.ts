/**
 * Which blocks of a prompt each worker held when the router chose: rows of cells. Holdings are
 * prefixes, so a number of leading blocks says everything. Long prompts share a cell among
 * several blocks.
 */
import { byNumber } from "./workers";

export const MOST_CELLS = 200;

export type Cell = "held" | "part" | "computed" | "missing";
export type MapRow = { worker: string; chosen: boolean; held: number; cells: Cell[] };
export type BlockMap = { blocks: number; perCell: number; rows: MapRow[] };

/** The least that a decision and a turn's record have in common. */
export type Choice = { blocks: number; winner: string | null; candidates: ReadonlyArray<{ worker: string; overlap_blocks: number }> };

/** Blocks that have to share a cell. */
export const blocksPerCell = (blocks: number, mostCells: number = MOST_CELLS): number => Math.max(1, Math.ceil(blocks / mostCells));

export function blockMap(choice: Choice, perCell: number = blocksPerCell(choice.blocks)): BlockMap {
  const count = Math.ceil(choice.blocks / perCell);
  const rows = [...choice.candidates]
    .sort((one, other) => byNumber(one.worker, other.worker))
    .map(({ worker, overlap_blocks }) => {
      const chosen = worker === choice.winner;
      const held = Math.min(overlap_blocks, choice.blocks);
      const cells = Array.from({ length: count }, (_, index): Cell => {
        const [start, end] = [index * perCell, Math.min((index + 1) * perCell, choice.blocks)];
        if (held >= end) return "held";
        if (held > start) return "part";
        return chosen ? "computed" : "missing";
      });
      return { worker, chosen, held, cells };
    });
  return { blocks: choice.blocks, perCell, rows };
}

const [STEP, WIDTH] = [10, 8];

/** One SVG path over all cells of one kind: 10 units a cell, 2 of them a gap. */
export function cellPath(cells: ReadonlyArray<Cell>, kind: Cell, height: number): string {
  return cells.map((cell, index) => (cell === kind ? `M${index * STEP} 0h${WIDTH}v${height}h-${WIDTH}z` : "")).join("");
}

export const mapWidth = (cells: number): number => Math.max(1, cells) * STEP;

/** Answered turns from which growth is seen. */
const GROWN = 2;

/**
 * Whose blocks to show when nobody chose: the newest with several answered turns, so that it is seen
 * what a history does, and then until it is over. With fewer, it gives way to one that has them.
 */
export function followed<T extends { id: string; turns_answered: number }>(current: string | null, active: ReadonlyArray<T>): string | null {
  const kept = active.find((conversation) => conversation.id === current);
  if (kept && kept.turns_answered >= GROWN) return current;
  const grown = active.find((conversation) => conversation.turns_answered >= GROWN);
  return (grown ?? kept ?? active.find((conversation) => conversation.turns_answered > 0))?.id ?? current;
}
