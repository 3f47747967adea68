/** Debian's headless Chromium, and a page that remembers what went wrong on it. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { type Browser, chromium, type Page } from "playwright-core";

/** Far beyond what a busy machine needs, and below what a test may take. */
const PATIENCE_MS = 100_000;

/** Nothing but this machine is talked to. */
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];

export const launch = (): Promise<Browser> =>
  chromium.launch({ executablePath: "/usr/bin/chromium-headless-shell", args: QUIET, timeout: PATIENCE_MS });

export type Watched = { page: Page; problems: string[] };

/** A page whose console errors and exceptions are collected. */
export async function open(browser: Browser, address: string, viewport = { width: 1366, height: 768 }): Promise<Watched> {
  return watch(await browser.newPage({ viewport }), address);
}

export async function watch(page: Page, address: string): Promise<Watched> {
  const problems: string[] = [];
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(address);
  return { page, problems };
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

type Violation = { id: string; impact: string | null; nodes: Array<{ html: string }> };

/** What axe finds serious or critical, one line each. */
export async function seriousViolations(page: Page): Promise<string[]> {
  await page.evaluate(axeSource);
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(): Promise<{ violations: Violation[] }> } };
    return (await axe.run()).violations;
  });
  return violations
    .filter((found) => found.impact === "serious" || found.impact === "critical")
    .map((found) => `${found.id}: ${found.nodes.map((node) => node.html).join(" | ")}`);
}

/** How many pixels the page is wider than its window. */
export const overflow = (page: Page): Promise<number> =>
  page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
