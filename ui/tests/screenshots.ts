/** Pictures of every page, dark and light, for docs/images: `cargo xtask screenshots`. */
import { resolve } from "node:path";
import { afterAll, beforeAll, it } from "vitest";
import type { Browser } from "playwright-core";
import type { ConversationList, State } from "../src/api/types";
import { launch, open } from "./browser";
import { type Demo, startDemo } from "./demo";
import { deploy, type Deployment, TOKEN } from "./deployment";
import { PAGES, until } from "./pages";
import { freePort, type Prometheus, startPrometheus } from "./prometheus";

const FOLDER = resolve(import.meta.dirname, "../../docs/images");
const WIDTH = 1366;
/** The foot of a long page is left out: a picture is to be looked at. */
const TALLEST = 1400;

let browser: Browser;
let demo: Demo;
/** Everything in processes of its own. */
let deployment: Deployment;
/** The same with a Prometheus, for the page that draws dashboards. */
let observed: Demo;
let prometheus: Prometheus;

const get = async <T>(path: string): Promise<T> => (await (await fetch(`${demo.console}${path}`)).json()) as T;
const load = async () => (await get<State>("/api/state")).load;
const route = (mode: string) => Promise.all([demo, observed].map((each) => fetch(`${each.console}/api/router`, { method: "PUT", body: JSON.stringify({ mode }) })));
// Few conversations share a beginning, so that the two modes differ on first turns too.
const OPTIONS = ["--starters", "unique", "--concurrency", "60", "--router-mode", "round-robin", "--autostart"];

beforeAll(async () => {
  browser = await launch();
  const port = await freePort();
  observed = await startDemo([...OPTIONS, "--no-baseline", "--prometheus-url", `http://127.0.0.1:${port}`]);
  prometheus = await startPrometheus(port, new URL(observed.console).host);
  demo = await startDemo(OPTIONS);
  deployment = await deploy(process.env["HOMING"] ?? "", [
    "--baseline", "published", "--subtitle", "Frontend, three simulated workers and load generator in processes of their own",
    "--part", "platform=Kubernetes", "--part", "gateway=Envoy Gateway,HTTPS", "--part", "nodes=GPU pool,3 x H200", "--part", "storage=NFS,weights at /models",
  ]);
  const control = { authorization: `Bearer ${TOKEN}` };
  await fetch(`${deployment.console}/api/load/settings`, { method: "PATCH", headers: control, body: JSON.stringify({ concurrency: 60, max_tokens: 1024 }) });
  await fetch(`${deployment.console}/api/load/start`, { method: "POST", headers: control });
  await until(async () => ((await load())?.running_s ?? 0) > 100);
  await route("kv");
  // Two minutes of the second mode, each shorter than what is waited for at once.
  await until(async () => ((await load())?.running_s ?? 0) > 165);
  await until(async () => ((await load())?.running_s ?? 0) > 230);
}, 300_000);

afterAll(async () => {
  await browser?.close();
  await demo?.stop();
  await observed?.stop();
  await deployment?.stop();
  await prometheus?.stop();
});

it("takes pictures", async () => {
  const finished = await get<ConversationList>("/api/conversations?status=completed&sort=newest&limit=1");
  const conversation = finished.conversations[0]?.id ?? "";
  const pages = [...PAGES, { name: "conversation", hash: `#/conversations/${conversation}`, ready: "Turn 3" }];
  for (const theme of ["dark", "light"]) {
    for (const { name, hash, ready } of pages) {
      const drawn = name === "grafana";
      // Panels out of sight ask nothing, so all that is to be on the picture is in sight.
      const address = drawn ? `${observed.console}/?theme=${theme}${hash}?range=5m` : `${demo.console}/?theme=${theme}${hash}`;
      const { page } = await open(browser, address, { width: WIDTH, height: drawn ? TALLEST : 768 });
      await page.getByText(ready).first().waitFor();
      // A few seconds of the stream, so that everything that moves has moved.
      await page.waitForTimeout(4000);
      const height = await page.evaluate(() => document.documentElement.scrollHeight);
      await page.screenshot({ path: `${FOLDER}/${name}-${theme}.png`, fullPage: true, clip: { x: 0, y: 0, width: WIDTH, height: Math.min(height, TALLEST) } });
      await page.close();
    }
  }
  // Three systems at once are more than a small machine carries, and their pages say so.
  await demo.stop();
  await observed.stop();
  await new Promise((resolve) => setTimeout(resolve, 75_000));
  for (const [name, hash, theme] of [["deployed", "#/", "dark"], ["deployed-architecture", "#/architecture", "light"]] as const) {
    const { page } = await open(browser, `${deployment.console}/?theme=${theme}${hash}`, { width: WIDTH, height: 768 });
    await page.waitForTimeout(4000);
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    await page.screenshot({ path: `${FOLDER}/${name}.png`, fullPage: true, clip: { x: 0, y: 0, width: WIDTH, height: Math.min(height, TALLEST) } });
    await page.close();
  }
  for (const [name, suffix, viewport] of [
    ["booth", "?booth=0&theme=dark#/", { width: 1920, height: 1080 }],
    ["booth-light", "?booth=0&theme=light#/", { width: 1920, height: 1080 }],
    ["booth-4k", "?booth=0&theme=dark#/story", { width: 3840, height: 2160 }],
    ["booth-4k-light", "?booth=0&theme=light#/story", { width: 3840, height: 2160 }],
    ["phone", "?theme=light#/", { width: 390, height: 844 }],
  ] as const) {
    // With the shipped sweep beside it, whose conversations share ten texts.
    const { page } = await open(browser, `${deployment.console}/${suffix}`, viewport);
    await page.waitForTimeout(4000);
    await page.screenshot({ path: `${FOLDER}/${name}.png` });
    await page.close();
  }
}, 600_000);
