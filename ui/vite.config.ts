import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

// The server's build script sets the folder; by hand it is ui/dist.
export default defineConfig({
  plugins: [react()],
  base: "./",
  build: { outDir: process.env["HOMING_UI_OUT"] ?? "dist", emptyOutDir: true, target: "es2023" },
  // `npm run dev` shows a running `homing demo`.
  // The published measurements lie beside the pages' own folder.
  server: { fs: { allow: [".."] }, proxy: { "/api": { target: "http://127.0.0.1:3000", ws: true }, "/decisions": "http://127.0.0.1:3000" } },
  test: { environment: "happy-dom", include: ["src/**/*.test.{ts,tsx}"] },
});
