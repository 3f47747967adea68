/** The console as a presenter uses it: one demo, one browser, one story. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Snapshot, State, TurnNumberFigures } from "../src/api/types";
import { launch, open, overflow, seriousViolations, type Watched } from "./browser";
import { type Demo, startDemo } from "./demo";
import { kpi, kpiValue, PAGES, slider, until } from "./pages";

/** No conversation shares its beginning with another, so that round robin has little to reuse. */
const OPTIONS = ["--starters", "unique", "--concurrency", "20", "--no-baseline"];

let browser: Browser;
let demo: Demo;
let watched: Watched;
let page: Page;

const ask = async <T>(path: string, init?: RequestInit): Promise<T> => (await (await fetch(`${demo.console}${path}`, init)).json()) as T;
const state = () => ask<State>("/api/state");
const change = (settings: object) => ask<Snapshot>("/api/load/settings", { method: "PATCH", body: JSON.stringify(settings) });
/** What second turns felt that were routed under a mode. */
const secondTurn = async (mode: string): Promise<TurnNumberFigures> => {
  const measured = (await state()).load?.by_mode.find((each) => each.mode === mode);
  const turn = measured?.turns.find((each) => each.turn === 2);
  return turn ?? { turn: 2, ttft_ms_p50: null, ttft_ms_p95: null, samples: 0, cached_pct: null };
};
const button = (name: string) => page.getByRole("button", { name, exact: true });

beforeAll(async () => {
  browser = await launch();
  demo = await startDemo(OPTIONS);
  // Short answers, so that conversations pass quickly.
  await change({ max_tokens: 40 });
  watched = await open(browser, demo.console);
  page = watched.page;
});

afterAll(async () => {
  await browser?.close();
  await demo?.stop();
});

describe("a presenter", () => {
  it("sees a simulated system at rest, and can only start it", async () => {
    await page.getByRole("heading", { level: 1, name: "Serve More Users on the Same GPUs with KV-Aware Routing" }).waitFor();
    expect(await page.getByText("simulated", { exact: true }).first().isVisible()).toBe(true);
    await until(() => button("Start").isEnabled());
    expect(await button("Stop").isDisabled()).toBe(true);
    expect(await kpi(page, "Requests")).toBe("—");
    expect(await kpi(page, "KV Cache Hit")).toBe("—");
  });

  it("starts load and sees numbers move", async () => {
    await button("Start").click();
    await until(() => button("Stop").isEnabled());
    expect(await button("Start").isDisabled()).toBe(true);
    await until(async () => await kpiValue(page, "Requests") > 20);
    const before = await kpiValue(page, "Requests");
    await until(async () => await kpiValue(page, "Requests") > before);
    expect(await kpiValue(page, "TOPS")).toBeGreaterThan(0);
    expect(await kpi(page, "Errors")).toBe("0");
  });

  it("moves the slider and sees concurrency follow", async () => {
    const follows = async (level: number) => {
      await until(async () => (await state()).load?.settings.concurrency === level);
      await until(async () => (await state()).load?.conversations.active === level);
    };
    await slider(page).fill("80");
    await follows(80);
    await until(async () => (await page.locator("main").innerText()).includes("80 of 80 active"));
    // By keyboard, one step.
    await slider(page).press("ArrowLeft");
    await follows(60);
  });

  it("changes the load's settings, and reads at the field what is wrong", async () => {
    await button("Load settings").click();
    const [from, to] = [page.getByLabel("Turns per conversation, from"), page.getByLabel("Turns per conversation, to")];
    await to.fill("6");
    await until(async () => (await state()).load?.settings.turns.end === 6);
    expect(await seriousViolations(page)).toEqual([]);
    await from.fill("9");
    await page.getByRole("alert").filter({ hasText: "range must not be reversed" }).waitFor();
    await from.fill("3");
    await to.fill("5");
    await until(async () => (await state()).load?.settings.turns.end === 5);
    await page.keyboard.press("Escape");
    await until(async () => !(await from.isVisible()));
    // The browser's own word on the refusal.
    watched.problems.splice(0, watched.problems.length, ...watched.problems.filter((problem) => !problem.includes("400")));
  });

  it("opens a conversation and reads its turns", async () => {
    await page.getByRole("link", { name: "Conversations", exact: true }).click();
    await page.getByLabel("Status").selectOption("completed");
    const first = page.getByRole("row").nth(1).getByRole("link");
    await first.waitFor();
    // The list moves on while load runs: whoever is first now may not be when it is clicked.
    const { topic, href } = await first.evaluate((link) => ({ topic: link.textContent ?? "", href: link.getAttribute("href") }));
    await page.locator(`a[href="${href}"]`).click();
    await page.getByRole("heading", { name: topic }).waitFor();
    const shown = await page.locator("main").innerText();
    for (const word of ["TTFT", "ITL", "Tokens", "Latency", "cached", "Turn 1", "Turn 3"]) expect(shown).toContain(word);
    expect(shown).toMatch(/worker/i);
    expect(shown).toMatch(/holds [\d,]+ of [\d,]+ blocks|no worker holds/);
    expect(shown).toContain("Assistant simulated");
  });

  it("switches the router and sees the cache and the first token respond", async () => {
    await page.getByRole("link", { name: "Dashboard", exact: true }).click();
    await until(async () => (await secondTurn("kv")).samples >= 40);
    const before = await kpiValue(page, "KV Cache Hit");
    await page.getByLabel("Router").selectOption("round-robin");
    await until(async () => (await state()).router.mode === "round-robin");
    await until(async () => (await kpiValue(page, "KV Cache Hit")) < before - 10);
    await until(async () => (await secondTurn("round-robin")).samples >= 40);
    const [home, astray] = [await secondTurn("kv"), await secondTurn("round-robin")];
    expect(astray.cached_pct).toBeLessThan((home.cached_pct ?? 0) - 10);
    expect(astray.ttft_ms_p50).toBeGreaterThan(home.ttft_ms_p50 ?? Number.POSITIVE_INFINITY);
    await page.getByLabel("Router").selectOption("kv");
    await until(async () => (await state()).router.mode === "kv");
  });

  it("finds every page usable, wide and narrow, dark and light", async () => {
    for (const theme of ["dark", "light"]) {
      for (const viewport of [{ width: 1366, height: 768 }, { width: 390, height: 844 }]) {
        await page.setViewportSize(viewport);
        for (const { name, hash, ready } of PAGES) {
          await page.goto(`${demo.console}/?theme=${theme}${hash}`);
          await page.getByText(ready).first().waitFor();
          expect(await seriousViolations(page), `${name}, ${theme}, ${viewport.width}`).toEqual([]);
          expect(await overflow(page), `${name}, ${viewport.width} wide`).toBe(0);
        }
      }
    }
    await page.setViewportSize({ width: 1366, height: 768 });
  });

  it("runs the stage with EAGLE-3 while load goes on", async () => {
    const failures = async () => (await state()).load?.totals.failures;
    const before = await failures();
    await page.goto(`${demo.console}/#/story`);
    await button("Run now: stage 4, + EAGLE-3").click();
    await page.getByText("Stage 4: KV-aware + EAGLE-3").waitFor();
    await until(async () => {
      const { workers } = await state();
      return workers.length === 3 && workers.every((worker) => worker.drafter === "eagle3" && worker.speculation.accepted_tokens > 0);
    });
    expect(await failures()).toBe(before);
  });

  it("stops load", async () => {
    await button("Stop").click();
    await until(async () => (await state()).load?.phase === "stopped");
    await until(() => button("Start").isEnabled());
    expect(await button("Stop").isDisabled()).toBe(true);
  });

  it("has met no error on the page", () => {
    expect(watched.problems).toEqual([]);
  });
});

describe("when the server goes away", () => {
  it("disables what cannot work, says since when, and recovers by itself", async () => {
    const port = Number(new URL(demo.console).port);
    await demo.stop();
    await page.getByText(/Stale since \d\d:\d\d:\d\d/).waitFor();
    expect(await button("Start").isDisabled()).toBe(true);
    expect(await button("Stop").isDisabled()).toBe(true);
    demo = await startDemo(OPTIONS, port);
    await page.getByText("Live", { exact: true }).waitFor();
    await until(() => button("Start").isEnabled());
    expect(await page.getByText(/Stale since/).count()).toBe(0);
  });
});

describe("a viewer without the control token", () => {
  it("sees everything and can start nothing until it has the token", async () => {
    const guarded = await startDemo(["--no-baseline", "--control-token", "open-sesame", "--autostart", "--concurrency", "5"]);
    const viewer = await open(browser, guarded.console);
    try {
      const named = (name: string) => viewer.page.getByRole("button", { name, exact: true });
      await until(async () => await kpiValue(viewer.page, "TOPS") > 0);
      expect(await named("Start").isDisabled()).toBe(true);
      expect(await named("Stop").isDisabled()).toBe(true);
      expect(await slider(viewer.page).isDisabled()).toBe(true);
      expect(await viewer.page.getByLabel("Router").isDisabled()).toBe(true);
      await named("Enter token").click();
      await viewer.page.getByRole("textbox", { name: "Token" }).fill("wrong");
      await named("Take control").click();
      await viewer.page.getByText("does not accept").waitFor();
      await viewer.page.getByRole("textbox", { name: "Token" }).fill("open-sesame");
      await named("Take control").click();
      await until(() => named("Stop").isEnabled());
      await named("Stop").click();
      await until(() => named("Start").isEnabled());
    } finally {
      await viewer.page.close();
      await guarded.stop();
    }
  });
});

describe("the bundle", () => {
  it("is small enough before the first screen", async () => {
    const main = await (await fetch(demo.console)).text();
    const files = [...main.matchAll(/(?:src|href)="\.\/([^"]+)"/g)].map((match) => match[1]);
    expect(files.length).toBeGreaterThan(1);
    let total = 0;
    for (const file of files) {
      const response = await fetch(`${demo.console}/${file}`, { headers: { "accept-encoding": "gzip" } });
      expect(response.status, file).toBe(200);
      total += Number(response.headers.get("content-length"));
    }
    console.log(`first screen: ${(total / 1000).toFixed(1)} kB over the wire`);
    expect(total).toBeLessThan(80_000);
  });

  it("tells how long a page takes until it can be used", async () => {
    const fresh = await browser.newContext();
    const timed = await fresh.newPage();
    const began = performance.now();
    await timed.goto(demo.console);
    await timed.getByRole("button", { name: "Start", exact: true }).and(timed.locator(":enabled")).waitFor();
    console.log(`interactive after ${(performance.now() - began).toFixed(0)} ms`);
    await fresh.close();
  });
});
