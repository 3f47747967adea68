/** The page that draws Grafana's dashboards, with answers of a real Prometheus. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launch, open, overflow, seriousViolations } from "./browser";
import { type Demo, startDemo } from "./demo";
import { until } from "./pages";
import { freePort, type Prometheus, startPrometheus } from "./prometheus";

let browser: Browser;
let demo: Demo;
let prometheus: Prometheus;
let page: Page;
let problems: string[];

const panel = (title: string) => page.getByRole("region", { name: title, exact: true });
/** A stat's large value. */
const value = async (title: string): Promise<number> => Number.parseFloat((await panel(title).locator(".stat-value").first().innerText().catch(() => "")).replaceAll(",", ""));
/** What a chart says to who does not see it. */
const words = async (title: string): Promise<string> => (await panel(title).getByRole("img").getAttribute("aria-label").catch(() => null)) ?? "";

beforeAll(async () => {
  browser = await launch();
  const port = await freePort();
  demo = await startDemo(["--no-baseline", "--autostart", "--concurrency", "20", "--prometheus-url", `http://127.0.0.1:${port}`]);
  // What is not the console's is answered there as on the API's port: /metrics too.
  prometheus = await startPrometheus(port, new URL(demo.console).host);
  ({ page, problems } = await open(browser, `${demo.console}/#/grafana?range=5m`));
});

afterAll(async () => {
  await browser?.close();
  await demo?.stop();
  await prometheus?.stop();
});

describe("with Prometheus", () => {
  it("shows figures and lines of the demonstration's dashboard", async () => {
    await page.getByRole("heading", { level: 2, name: "GTC Demo: Optimized LLM Inference" }).waitFor();
    await page.getByText("Drawn by Homing from the Grafana dashboard’s own JSON; not Grafana.").waitFor();
    expect(await page.locator("main").getByText("simulated", { exact: true }).isVisible()).toBe(true);
    await until(async () => (await value("Request Rate")) > 0);
    await until(async () => (await value("Output Tokens/s")) > 100);
    await until(async () => /p95 [\d.]+ m?s, Inflight \d+\. Threshold at 600 ms\./.test(await words("TTFT p95 (SLO: 600ms)")));
    // Pixels, not only words: something of the line's colour is on the canvas.
    const painted = await panel("TTFT p95 (SLO: 600ms)").locator("canvas").evaluate((canvas: HTMLCanvasElement) => {
      const { data } = canvas.getContext("2d")?.getImageData(0, 0, canvas.width, canvas.height) ?? { data: [] };
      let count = 0;
      for (let at = 0; at < data.length; at += 4) if ((data[at + 3] ?? 0) > 200 && (data[at] ?? 0) > (data[at + 2] ?? 0) + 80) count += 1;
      return count;
    });
    expect(painted).toBeGreaterThan(50);
  });

  it("asks for what is scrolled into sight, and only for that", async () => {
    const title = "Inflight Requests (per worker)";
    expect(await panel(title).getByRole("img").count()).toBe(0);
    await panel(title).scrollIntoViewIfNeeded();
    await until(async () => /worker-0 \d+, worker-1 \d+, worker-2 \d+/.test(await words(title)));
  });

  it("switches to the other dashboard, over the same range", async () => {
    await page.evaluate(() => void (document.documentElement.scrollTop = document.documentElement.scrollHeight));
    await page.getByLabel("Dashboard").selectOption("homing-router");
    await page.getByRole("heading", { level: 2, name: "Homing: Router and Workers" }).waitFor();
    expect(page.url()).toContain("#/grafana/homing-router?range=5m");
    await until(async () => (await value("Workers")) === 3);
    await until(async () => (await words("Placements by Worker")).includes("worker 2"));
    // Of one worker alone.
    await page.getByRole("combobox", { name: "Worker", exact: true }).selectOption("1");
    await until(async () => (await value("Workers")) === 1);
    const closed = page.getByRole("button", { name: "Engine Steps (3 panels)" });
    await closed.click();
    expect(page.url()).toContain("rows=");
    await panel("Step Time p95").scrollIntoViewIfNeeded();
    await until(async () => /worker 1 [\d.]+ m?s/.test(await words("Step Time p95")));
  });

  it("is usable, wide and narrow, dark and light", async () => {
    for (const theme of ["dark", "light"]) {
      for (const viewport of [{ width: 1366, height: 768 }, { width: 390, height: 844 }]) {
        await page.setViewportSize(viewport);
        for (const [uid, stat] of [["gtc-demo", "Request Rate"], ["homing-router", "Placements"]] as const) {
          await page.goto(`${demo.console}/?theme=${theme}#/grafana/${uid}?range=5m`);
          await until(async () => (await value(stat)) > 0);
          expect(await seriousViolations(page), `${uid}, ${theme}, ${viewport.width}`).toEqual([]);
          expect(await overflow(page), `${uid}, ${viewport.width} wide`).toBe(0);
        }
      }
    }
    await page.setViewportSize({ width: 1366, height: 768 });
  });

  it("has met no error on the page", () => {
    expect(problems).toEqual([]);
  });

  it("says in each panel that Prometheus is gone, and keeps what was there", async () => {
    await prometheus.stop();
    await panel("Placements").getByRole("status").filter({ hasText: /refused/i }).waitFor();
    expect(await value("Placements")).toBeGreaterThan(0);
  });
});

describe("without Prometheus", () => {
  it("says what to start, and shows the queries", async () => {
    const alone = await startDemo(["--no-baseline"]);
    const viewer = await open(browser, `${alone.console}/#/grafana`);
    try {
      await viewer.page.getByText("No Prometheus is connected").waitFor();
      const lonely = viewer.page.getByRole("region", { name: "Request Rate", exact: true });
      expect(await lonely.locator("code").innerText()).toContain("rate(dynamo_frontend_requests_total");
      expect(viewer.problems).toEqual([]);
    } finally {
      await viewer.page.close();
      await alone.stop();
    }
  });
});
