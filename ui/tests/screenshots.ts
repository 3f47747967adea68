/** Pictures of every page, dark and light, for docs/images: `cargo xtask screenshots`. */
import { resolve } from "node:path";
import { afterAll, beforeAll, it } from "vitest";
import type { Browser } from "playwright-core";
import type { ConversationList, State } from "../src/api/types";
import { launch, open } from "./browser";
import { type Demo, startDemo } from "./demo";
import { PAGES, until } from "./pages";
import { freePort, type Prometheus, startPrometheus } from "./prometheus";

const FOLDER = resolve(import.meta.dirname, "../../docs/images");
const WIDTH = 1366;
/** The foot of a long page is left out: a picture is to be looked at. */
const TALLEST = 1400;

let browser: Browser;
let demo: Demo;
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
  await until(async () => ((await load())?.running_s ?? 0) > 100);
  await route("kv");
  await until(async () => ((await load())?.running_s ?? 0) > 220);
}, 300_000);

afterAll(async () => {
  await browser?.close();
  await demo?.stop();
  await observed?.stop();
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
  for (const [name, suffix, viewport] of [
    ["booth", "?booth=0&theme=dark#/", { width: 1920, height: 1080 }],
    ["booth-light", "?booth=0&theme=light#/", { width: 1920, height: 1080 }],
    ["booth-4k", "?booth=0&theme=dark#/story", { width: 3840, height: 2160 }],
    ["phone", "?theme=light#/", { width: 390, height: 844 }],
  ] as const) {
    const { page } = await open(browser, `${demo.console}/${suffix}`, viewport);
    await page.waitForTimeout(4000);
    await page.screenshot({ path: `${FOLDER}/${name}.png` });
    await page.close();
  }
});
