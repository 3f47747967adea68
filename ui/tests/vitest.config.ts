import { defineConfig } from "vitest/config";

// Against a running demo: slow, and one after the other, because they share it.
export default defineConfig({
  test: {
    environment: "node",
    root: import.meta.dirname,
    include: process.env["HOMING_SCREENSHOTS"] ? ["screenshots.ts"] : ["*.browser.ts"],
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 120_000,
    reporters: ["verbose"],
  },
});
