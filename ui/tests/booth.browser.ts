/** Booth mode on screens of two sizes: every page fits, turns by key and tells its story. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { State } from "../src/api/types";
import { launch, open, seriousViolations, type Watched } from "./browser";
import { type Demo, startDemo } from "./demo";
import { PAGES, until } from "./pages";

const SCREENS = [{ width: 1920, height: 1080 }, { width: 3840, height: 2160 }] as const;
/** Whose content goes on below the screen, cut on purpose. */
const CUT = ["conversations"];

let browser: Browser;
let demo: Demo;
let watched: Watched;
let page: Page;

const state = async (): Promise<State> => (await (await fetch(`${demo.console}/api/state`)).json()) as State;

beforeAll(async () => {
  browser = await launch();
  demo = await startDemo(["--autostart", "--concurrency", "20"]);
  watched = await open(browser, `${demo.console}/?booth=0`, SCREENS[0]);
  page = watched.page;
  await until(async () => ((await state()).load?.totals.requests ?? 0) > 5);
});

afterAll(async () => {
  await browser?.close();
  await demo?.stop();
});

/** What scrolls, sticks out of the screen or is cut off. */
const misfits = (cutAllowed: boolean): Promise<string[]> =>
  page.evaluate((cutAllowed) => {
    const found: string[] = [];
    const named = (element: Element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""}`;
    const root = document.documentElement;
    if (root.scrollHeight > root.clientHeight || root.scrollWidth > root.clientWidth) found.push(`the page is ${root.scrollWidth} by ${root.scrollHeight}`);
    for (const element of document.querySelectorAll("#root, main, main *")) {
      const { overflowX, overflowY } = getComputedStyle(element);
      const tooLarge = element.scrollHeight > element.clientHeight + 1 || element.scrollWidth > element.clientWidth + 1;
      if (!tooLarge || element.clientHeight === 0 || element.closest("svg, .uplot, .visually-hidden")) continue;
      const scrolls = [overflowX, overflowY].some((overflow) => overflow === "auto" || overflow === "scroll");
      const cut = element.matches("main, .panel") && overflowY === "hidden" && !cutAllowed;
      if (scrolls || cut) found.push(`${named(element)} holds ${element.scrollWidth} by ${element.scrollHeight} in ${element.clientWidth} by ${element.clientHeight}`);
    }
    for (const panel of document.querySelectorAll("main > *, main .panel")) {
      const { right, bottom, height } = panel.getBoundingClientRect();
      if (height > 0 && (right > innerWidth + 1 || bottom > innerHeight + 1)) found.push(`${named(panel)} ends at ${right} by ${bottom}`);
    }
    return found;
  }, cutAllowed);

describe.each(SCREENS)("on a screen of $width by $height", (screen) => {
  it.each(["dark", "light"])("every page fits and is readable, %s", async (theme) => {
    await page.setViewportSize(screen);
    for (const { name, hash, ready } of PAGES) {
      await page.goto(`${demo.console}/?booth=0&theme=${theme}&qr=${encodeURIComponent("https://example.org/homing")}${hash}`);
      await page.getByText(ready).first().waitFor();
      await page.getByRole("img", { name: "QR code: https://example.org/homing" }).waitFor();
      expect(await misfits(CUT.includes(name)), `${name}, ${theme}`).toEqual([]);
      expect(await seriousViolations(page), `${name}, ${theme}`).toEqual([]);
    }
  });
});

it("turns pages by key", async () => {
  await page.setViewportSize(SCREENS[0]);
  await page.goto(`${demo.console}/?booth=0#/`);
  await page.getByText("Live versus round robin").waitFor();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("heading", { name: /One load, four stages/ }).waitFor();
  await page.keyboard.press("ArrowLeft");
  await page.getByText("Live versus round robin").waitFor();
});

it("turns pages by time, until the space bar holds one", async () => {
  await page.goto(`${demo.console}/?booth=5#/`);
  await page.getByText("Live versus round robin").waitFor();
  await page.getByRole("heading", { name: /One load, four stages/ }).waitFor();
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Go on" }).waitFor();
});

it("tells the story from round robin on, and puts the mode back at any key", async () => {
  expect((await state()).router.mode).toBe("kv");
  await page.goto(`${demo.console}/?booth&attract#/features`);
  await page.getByRole("status").filter({ hasText: /^Round robin/ }).waitFor();
  await until(async () => (await state()).router.mode === "round-robin");
  await page.keyboard.press("x");
  await until(async () => (await state()).router.mode === "kv");
  expect(await page.getByRole("status").filter({ hasText: /^Round robin/ }).count()).toBe(0);
});

it("has met no error on the page", () => {
  expect(watched.problems).toEqual([]);
});
