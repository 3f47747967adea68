import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { storyOf } from "./src/lib/story-file.ts";

/** The figures of the story page: a few of the many that the sweep wrote. */
function story(): Plugin {
  const file = resolve(import.meta.dirname, "../docs/results/story/summary.json");
  return {
    name: "story",
    resolveId: (id) => (id === "virtual:story" ? `\0${id}` : null),
    load(id) {
      if (id !== "\0virtual:story") return null;
      this.addWatchFile(file);
      return `export default ${JSON.stringify(storyOf(JSON.parse(readFileSync(file, "utf8"))))}`;
    },
  };
}

// The server's build script sets the folder; by hand it is ui/dist.
export default defineConfig({
  plugins: [story()],
  base: "./",
  build: { outDir: process.env["HOMING_UI_OUT"] ?? "dist", emptyOutDir: true, target: "es2023" },
  // `npm run dev` shows a running `homing demo`.
  // The published measurements lie beside the pages' own folder.
  server: { fs: { allow: [".."] }, proxy: { "/api": { target: "http://127.0.0.1:3000", ws: true }, "/decisions": "http://127.0.0.1:3000" } },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
