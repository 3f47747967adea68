/** A console before a target that misbehaves: what is wrong is said, and load resumes by itself. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { State } from "../src/api/types";
import { launch, open, seriousViolations } from "./browser";
import { type Demo, startLoad } from "./demo";
import { kpi, PAGES, until } from "./pages";
import { type Manners, Target } from "./target";

const OPTIONS = ["--concurrency", "3", "--think-time", "200ms", "--stall", "1s", "--plain"];

const target = new Target();
let browser: Browser;
let load: Demo;
let page: Page;
let problems: string[];

beforeAll(async () => {
  browser = await launch();
  await target.open();
  load = await startLoad(target.address, OPTIONS);
  ({ page, problems } = await open(browser, load.console));
});

afterAll(async () => {
  await browser?.close();
  await load?.stop();
  await target.close();
});

const answered = async (): Promise<number> => {
  const state = (await (await fetch(`${load.console}/api/state`)).json()) as State;
  const { requests, failures } = state.load?.totals ?? { requests: 0, failures: 0 };
  return requests - failures;
};

async function resumes(): Promise<void> {
  const before = await answered();
  await until(async () => (await answered()) > before + 5);
}

it("shows a target of which only the answers are known", async () => {
  await page.getByText(`stand-in at ${target.address}`).first().waitFor();
  await resumes();
  expect(await page.getByLabel("Router", { exact: true }).count()).toBe(0);
  expect(await kpi(page, "Queued")).toBe("—");
  for (const { hash } of PAGES) {
    await page.goto(`${load.console}/${hash}`);
    await page.getByText("Live", { exact: true }).waitFor();
    expect(await seriousViolations(page), hash).toEqual([]);
  }
  await page.goto(`${load.console}/#/`);
  expect(problems).toEqual([]);
});

it.each<[Manners, RegExp]>([
  ["refuses", /Incorrect API key provided/],
  ["stalls", /no byte for 1s/],
  ["babbles", /not an event of a chat answer/],
])("says that a target %s, and goes on when it is well again", async (manners, message) => {
  target.manners = manners;
  await page.getByRole("alert").filter({ hasText: message }).waitFor();
  target.manners = "well";
  await resumes();
});

it("says that a target is gone, and goes on when it is back", async () => {
  await target.close();
  await page.getByRole("alert").filter({ hasText: /refused/i }).waitFor();
  await target.open();
  await resumes();
});
