// @vitest-environment node
import { resolve } from "node:path";
import { build, type Rollup } from "vite";
import { expect, it, vi } from "vitest";

/** Bytes before compression: what a phone at the stand has to read before it shows something. */
const MOST_FIRST = 200_000;
/** All pages together. */
const MOST = 320_000;

const bytesOf = (file: Rollup.OutputChunk | Rollup.OutputAsset): number => Buffer.byteLength(file.type === "chunk" ? file.code : file.source);

it("loads little before the first screen, and not much in all", async () => {
  // As outside of tests: else components would carry what only development needs.
  vi.stubEnv("NODE_ENV", "production");
  const built = await build({ root: resolve(import.meta.dirname, ".."), logLevel: "silent", build: { write: false } });
  const { output } = built as Rollup.RollupOutput;
  const chunks = output.filter((file) => file.type === "chunk");
  const first = new Set<string>(["index.html"]);
  const add = (name: string): void => {
    if (first.has(name)) return;
    first.add(name);
    const chunk = chunks.find((one) => one.fileName === name);
    for (const style of chunk?.viteMetadata?.importedCss ?? []) first.add(style);
    for (const other of chunk?.imports ?? []) add(other);
  };
  for (const entry of chunks.filter((chunk) => chunk.isEntry)) add(entry.fileName);
  const sum = (files: typeof output[number][]) => files.reduce((bytes, file) => bytes + bytesOf(file), 0);
  const [start, all] = [sum(output.filter((file) => first.has(file.fileName))), sum([...output])];
  expect(start).toBeGreaterThan(50_000);
  expect(start, "what the first screen loads: split it, or drop a dependency").toBeLessThan(MOST_FIRST);
  expect(all, "all pages: drop a dependency").toBeLessThan(MOST);
}, 60_000);
