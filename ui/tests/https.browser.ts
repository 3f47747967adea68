/** The console over HTTPS: pages by HTTP/2, live figures by a WebSocket. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { launch, watch, type Watched } from "./browser";
import { type Demo, startDemo } from "./demo";
import { kpiValue, until } from "./pages";

let folder: string;
let browser: Browser;
let demo: Demo;
let watched: Watched;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "https-"));
  const [cert, key] = [join(folder, "cert.pem"), join(folder, "key.pem")];
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  execFileSync("openssl", ["req", "-x509", ...kind, ...names, "-days", "2", "-out", cert, "-keyout", key], { stdio: "pipe" });
  demo = await startDemo(["--tls-cert", cert, "--tls-key", key, "--autostart", "--concurrency", "20", "--no-baseline"]);
  browser = await launch();
  const context = await browser.newContext({ ignoreHTTPSErrors: true });
  watched = await watch(await context.newPage(), demo.console);
});

afterAll(async () => {
  await browser?.close();
  await demo?.stop();
  rmSync(folder, { recursive: true, force: true });
});

it("shows live figures over HTTPS", async () => {
  const { page, problems } = watched;
  expect(demo.console).toMatch(/^https:/);
  await until(async () => await kpiValue(page, "Requests") > 5);
  const before = await kpiValue(page, "Requests");
  await until(async () => await kpiValue(page, "Requests") > before);
  const protocol = await page.evaluate(() => (performance.getEntriesByType("navigation")[0] as PerformanceNavigationTiming).nextHopProtocol);
  expect(protocol).toBe("h2");
  expect(problems).toEqual([]);
});
