/**
 * A text as a QR code: byte mode, error correction level M, versions 1 to 6 (up to 106 bytes),
 * which is enough for an address. After ISO/IEC 18004; versions above 6 need fields that are
 * not drawn here.
 */
import { correction } from "./bytes";

/** Rows of modules; true is dark. Without the quiet zone of four modules. */
export type Matrix = boolean[][];

/** Of level M: blocks, data bytes in each, correction bytes for each. */
const VERSIONS = [
  { blocks: 1, data: 16, extra: 10 },
  { blocks: 1, data: 28, extra: 16 },
  { blocks: 1, data: 44, extra: 26 },
  { blocks: 2, data: 32, extra: 18 },
  { blocks: 2, data: 43, extra: 24 },
  { blocks: 4, data: 27, extra: 16 },
] as const;

/** Mode and length take a byte and a half. */
const FRAME_BYTES = 2;
const LEVEL_M = 0b00;
const PADS = [0xec, 0x11];

type Invert = (row: number, column: number) => boolean;
const MASKS: readonly Invert[] = [
  (row, column) => (row + column) % 2 === 0,
  (row) => row % 2 === 0,
  (_, column) => column % 3 === 0,
  (row, column) => (row + column) % 3 === 0,
  (row, column) => (Math.floor(row / 2) + Math.floor(column / 3)) % 2 === 0,
  (row, column) => ((row * column) % 2) + ((row * column) % 3) === 0,
  (row, column) => (((row * column) % 2) + ((row * column) % 3)) % 2 === 0,
  (row, column) => (((row + column) % 2) + ((row * column) % 3)) % 2 === 0,
];

/** The code with the mask that is easiest to read, or with the one asked for; `null` if the text is too long. */
export function qrCode(text: string, mask?: number): Matrix | null {
  const bytes = [...new TextEncoder().encode(text)];
  const version = 1 + VERSIONS.findIndex(({ blocks, data }) => bytes.length + FRAME_BYTES <= blocks * data);
  if (version === 0) return null;
  const bits = bitsOf(codewords(bytes, version));
  if (mask !== undefined) return drawn(version, bits, mask);
  const all = MASKS.map((_, index) => drawn(version, bits, index));
  return all.reduce((best, each) => (penalty(each) < penalty(best) ? each : best));
}

const bitsOf = (bytes: readonly number[]): boolean[] => bytes.flatMap((byte) => Array.from({ length: 8 }, (_, bit) => ((byte >> (7 - bit)) & 1) === 1));

/** Data and correction in the order in which they are drawn. */
function codewords(bytes: readonly number[], version: number): number[] {
  const { blocks, data, extra } = specOf(version);
  // Half bytes: the mode, the length, the bytes, and an end.
  const nibbles = [0b0100, bytes.length >> 4, bytes.length & 15, ...bytes.flatMap((byte) => [byte >> 4, byte & 15]), 0];
  const packed = Array.from({ length: nibbles.length >> 1 }, (_, index) => ((nibbles[2 * index] ?? 0) << 4) | (nibbles[2 * index + 1] ?? 0));
  const padded = Array.from({ length: blocks * data }, (_, index) => packed[index] ?? PADS[(index - packed.length) % 2] ?? 0);
  const parts = Array.from({ length: blocks }, (_, block) => padded.slice(block * data, (block + 1) * data));
  return [...interleaved(parts), ...interleaved(parts.map((part) => correction(part, extra)))];
}

const interleaved = (parts: number[][]): number[] => (parts[0] ?? []).flatMap((_, index) => parts.map((part) => part[index] ?? 0));

function specOf(version: number): (typeof VERSIONS)[number] {
  const spec = VERSIONS[version - 1];
  if (!spec) throw new RangeError(`there is no version ${version}`);
  return spec;
}

/** A module that is not yet decided is undefined. */
type Canvas = Array<Array<boolean | undefined>>;

function drawn(version: number, bits: readonly boolean[], mask: number): Matrix {
  const size = 17 + 4 * version;
  const canvas: Canvas = Array.from({ length: size }, () => Array.from({ length: size }, () => undefined));
  const put = (row: number, column: number, dark: boolean) => {
    const line = canvas[row];
    if (line && column >= 0 && column < size) line[column] = dark;
  };
  for (const [row, column] of [[3, 3], [3, size - 4], [size - 4, 3]] as const) square(put, row, column, 4, (ring) => ring !== 2 && ring !== 4);
  if (version > 1) square(put, size - 7, size - 7, 2, (ring) => ring !== 1);
  for (let index = 8; index < size - 8; index++) {
    put(6, index, index % 2 === 0);
    put(index, 6, index % 2 === 0);
  }
  drawFormat(put, size, mask);
  drawData(canvas, bits, MASKS[mask] ?? (() => false));
  return canvas.map((line) => line.map((dark) => dark === true));
}

type Put = (row: number, column: number, dark: boolean) => void;

/** Rings around a centre; what lies outside of the code is cut off. */
function square(put: Put, row: number, column: number, rings: number, dark: (ring: number) => boolean): void {
  for (let down = -rings; down <= rings; down++) {
    for (let right = -rings; right <= rings; right++) put(row + down, column + right, dark(Math.max(Math.abs(down), Math.abs(right))));
  }
}

/** The level and the mask, with ten bits of correction, twice. */
function drawFormat(put: Put, size: number, mask: number): void {
  const data = (LEVEL_M << 3) | mask;
  let rest = data;
  for (let step = 0; step < 10; step++) rest = (rest << 1) ^ ((rest >> 9) * 0x537);
  const format = ((data << 10) | rest) ^ 0x5412;
  for (let index = 0; index < 15; index++) {
    const dark = ((format >> index) & 1) === 1;
    // Around the upper left corner, past the timing lines.
    put(index < 6 ? index : index < 8 ? index + 1 : 8, index < 8 ? 8 : index === 8 ? 7 : 14 - index, dark);
    // Beside the other two.
    put(index < 8 ? 8 : size - 15 + index, index < 8 ? size - 1 - index : 8, dark);
  }
  put(size - 8, 8, true);
}

/** In columns of two, from the right, up and down in turn. */
function drawData(canvas: Canvas, bits: readonly boolean[], inverted: Invert): void {
  const size = canvas.length;
  let next = 0;
  for (let pair = 0; pair < (size - 1) / 2; pair++) {
    // The column of the timing line is left out.
    const right = size - 1 - 2 * pair - (size - 1 - 2 * pair <= 6 ? 1 : 0);
    for (let step = 0; step < size; step++) {
      const row = pair % 2 === 0 ? size - 1 - step : step;
      for (const column of [right, right - 1]) {
        const line = canvas[row];
        if (!line || line[column] !== undefined) continue;
        line[column] = (bits[next++] ?? false) !== inverted(row, column);
      }
    }
  }
}

/** How hard a code is to read: long runs, blocks, shapes like a corner's, and too much of one colour. */
export function penalty(matrix: Matrix): number {
  const size = matrix.length;
  const columns = matrix.map((_, column) => matrix.map((line) => line[column] === true));
  let sum = 0;
  for (const line of [...matrix, ...columns]) {
    const text = line.map((dark) => (dark ? "1" : "0")).join("");
    for (const run of text.match(/0{5,}|1{5,}/g) ?? []) sum += run.length - 2;
    sum += 40 * [...text.matchAll(/(?=10111010000|00001011101)/g)].length;
  }
  for (let row = 1; row < size; row++) {
    for (let column = 1; column < size; column++) {
      const dark = matrix[row]?.[column];
      if (dark === matrix[row - 1]?.[column] && dark === matrix[row]?.[column - 1] && dark === matrix[row - 1]?.[column - 1]) sum += 3;
    }
  }
  const dark = matrix.flat().filter(Boolean).length;
  return sum + 10 * Math.floor(Math.abs((100 * dark) / size ** 2 - 50) / 5);
}
