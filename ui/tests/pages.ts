/** Where things are on the pages, in the words that a reader or a screen reader meets. */
import type { Page } from "playwright-core";

/** Every page, and a text that is there once it shows something. */
export const PAGES = [
  { name: "dashboard", hash: "#/", ready: "TTFT by turn" },
  { name: "story", hash: "#/story", ready: "This system now" },
  { name: "conversations", hash: "#/conversations", ready: "Topic" },
  { name: "architecture", hash: "#/architecture", ready: "worker 0" },
  { name: "routing", hash: "#/routing", ready: "Last decision" },
  { name: "features", hash: "#/features", ready: "Speculative decoding" },
  { name: "grafana", hash: "#/grafana", ready: "not Grafana" },
] as const;

/** What a card shows. */
export const kpi = (page: Page, name: string): Promise<string> =>
  page.locator(".kpi").filter({ has: page.getByText(name, { exact: true }) }).locator(".figure").innerText();

/** The same as a number; NaN for a dash. */
export const kpiValue = async (page: Page, name: string): Promise<number> =>
  Number.parseFloat((await kpi(page, name)).replaceAll(",", ""));

export const slider = (page: Page) => page.getByRole("slider");

const STEP_MS = 100;
/** Below a test's own limit, which would not say what was waited for. */
const PATIENCE_MS = 100_000;

/** Waits until `holds`, and says what never did. */
export async function until(holds: () => Promise<boolean> | boolean): Promise<void> {
  const end = Date.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`this never held: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
  }
}
