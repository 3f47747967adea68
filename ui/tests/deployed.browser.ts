/** The console of a deployed system: everything is a process of its own, and every page is filled. */
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { State } from "../src/api/types";
import { launch, open, overflow, seriousViolations, type Watched } from "./browser";
import { deploy, type Deployment, TOKEN } from "./deployment";
import { kpiValue, PAGES, slider, until } from "./pages";
import { freePort, type Prometheus, startPrometheus } from "./prometheus";

let browser: Browser;
let deployment: Deployment;
let prometheus: Prometheus;
let watched: Watched;
let page: Page;

const state = async (): Promise<State> => (await (await fetch(`${deployment.console}/api/state`)).json()) as State;
const button = (name: string) => page.getByRole("button", { name, exact: true });

beforeAll(async () => {
  const program = process.env["HOMING"];
  if (!program) throw new Error("HOMING must name the program; `cargo xtask test --only browser` sets it");
  browser = await launch();
  const port = await freePort();
  deployment = await deploy(program, [
    "--prometheus-url", `http://127.0.0.1:${port}`, "--grafana-url", "http://127.0.0.1:9/grafana", "--baseline", "published",
    "--part", "platform=A cloud", "--part", "gateway=Envoy,HTTPS", "--part", "nodes=GPU pool,3 x H200", "--part", "storage=NFS,/models",
  ]);
  prometheus = await startPrometheus(port, new URL(deployment.console).host);
  watched = await open(browser, deployment.console);
  page = watched.page;
}, 180_000);

afterAll(async () => {
  await browser?.close();
  await deployment?.stop();
  await prometheus?.stop();
});

describe("a deployed system", () => {
  it("is seen by everyone, and asks for a token before anything changes", async () => {
    await until(async () => (await state()).workers.length === 3);
    // It is asked every second, and came last.
    await until(async () => (await state()).load !== null);
    expect((await state()).load_at).toMatchObject({ kind: "elsewhere", error: null });
    await button("Start").waitFor();
    expect(await button("Start").isDisabled()).toBe(true);
    await button("Enter token").click();
    await page.getByLabel("Token", { exact: true }).fill(TOKEN);
    await button("Take control").click();
    await until(() => button("Start").isEnabled());
  });

  it("is loaded from elsewhere, and its level moves", async () => {
    await button("Start").click();
    await until(async () => (await state()).load?.phase === "running");
    await until(async () => (await kpiValue(page, "Requests")) > 20);
    await slider(page).fill("80");
    await until(async () => (await state()).load?.settings.concurrency === 80);
  });

  it("has a baseline beside live figures", async () => {
    expect((await state()).baseline.state).toBe("ready");
    await page.getByText("RR p95").first().waitFor();
  });

  it("switches its router", async () => {
    await page.getByLabel("Router").selectOption("round-robin");
    await until(async () => (await state()).router.mode === "round-robin");
    await page.getByLabel("Router").selectOption("kv");
    await until(async () => (await state()).router.mode === "kv");
  });

  it("fills every page, without a mistake", async () => {
    for (const { hash, ready } of PAGES) {
      await page.goto(`${deployment.console}/${hash}`);
      await page.getByText(ready).first().waitFor();
      expect(await overflow(page)).toBe(0);
      expect(await seriousViolations(page)).toEqual([]);
    }
    expect(watched.problems).toEqual([]);
  });

  it("draws what it consists of", async () => {
    await page.goto(`${deployment.console}/#/architecture`);
    const drawn = page.locator("main");
    for (const part of ["NATS", "etcd", "Envoy", "GPU pool", "NFS"]) {
      await until(async () => (await drawn.innerText()).includes(part));
    }
  });

  it("says why the load is gone when its generator is", async () => {
    await deployment.loseLoad();
    await until(async () => (await state()).load === null);
    const { load_at } = await state();
    expect(load_at.kind === "elsewhere" && load_at.error).toBeTruthy();
    expect((await state()).workers.length).toBe(3);
  });
});
