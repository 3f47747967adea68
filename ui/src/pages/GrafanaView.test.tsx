import { cleanup, fireEvent, render, screen, within } from "../rendering";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LiveProvider } from "../api/live";
import { aState, aStore } from "../fixtures";
import { GrafanaView } from "./GrafanaView";

vi.mock("uplot", () => ({ default: class { setData() {} setSize() {} destroy() {} } }));

const legend = { displayMode: "list", placement: "bottom", showLegend: true, calcs: [] };
const BOARD = {
  uid: "one", title: "Board One", description: "About it.", time: { from: "now-30m", to: "now" }, refresh: "5s",
  templating: { list: [{ name: "worker", type: "query", label: "Worker", query: "label_values(up, worker_id)", allValue: ".*" }] },
  panels: [
    { id: 1, type: "stat", title: "Rate", description: "How often.", gridPos: { x: 0, y: 0, w: 6, h: 4 }, fieldConfig: { defaults: { unit: "reqps", decimals: 2 } }, options: { colorMode: "value", graphMode: "area", reduceOptions: { calcs: ["lastNotNull"] } }, targets: [{ refId: "A", expr: "rate(a[1m])", range: true }] },
    { id: 2, type: "timeseries", title: "Lines", gridPos: { x: 6, y: 0, w: 18, h: 8 }, fieldConfig: { defaults: { unit: "s" } }, options: { legend }, targets: [{ refId: "A", expr: 'b{w=~"$worker"}', legendFormat: "worker {{w}}", range: true }] },
    { id: 3, type: "timeseries", title: "Broken", gridPos: { x: 0, y: 8, w: 12, h: 8 }, options: { legend }, targets: [{ refId: "A", expr: "wrong(", range: true }] },
    { id: 4, type: "gauge", title: "Other", gridPos: { x: 12, y: 8, w: 12, h: 8 } },
    { id: 9, type: "row", title: "More", collapsed: true, gridPos: { x: 0, y: 16, w: 24, h: 1 }, panels: [{ id: 5, type: "timeseries", title: "Hidden", gridPos: { x: 0, y: 17, w: 24, h: 8 }, options: { legend }, targets: [{ refId: "A", expr: "vector(NaN) > 0", legendFormat: "never", range: true }] }] },
  ],
};

let asked: URL[];
let prometheus: string | null;

/** A value at the end of the window that was asked for. */
function answer(url: URL): Response {
  const ok = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });
  const expr = url.searchParams.get("query") ?? "";
  if (url.pathname === "/api/dashboards") return ok({ dashboards: [{ uid: "one", title: "Board One" }, { uid: "two", title: "Board Two" }], prometheus });
  if (url.pathname === "/api/dashboards/one") return ok(BOARD);
  if (expr === "wrong(") return ok({ error: { message: "parse error: unclosed left parenthesis", type: "invalid_request_error", code: null, param: null } }, 400);
  const series = (metric: object, value: string) => ({ metric, values: [[Number(url.searchParams.get("end")), value]] });
  const result = expr.startsWith("group") ? [{ metric: { worker_id: "1" }, value: [0, "1"] }, { metric: { worker_id: "0" }, value: [0, "1"] }]
    : expr.startsWith("rate") ? [series({}, "3.0834")]
    : expr.startsWith("b{") ? [series({ w: "0" }, "0.25"), series({ w: "1" }, "NaN")] : [];
  return ok({ status: "success", data: { result } });
}

beforeEach(() => {
  window.location.hash = "#/grafana";
  [asked, prometheus] = [[], "http://127.0.0.1:9090"];
  vi.stubGlobal("fetch", async (path: string) => {
    const url = new URL(path, "http://console");
    asked.push(url);
    return answer(url);
  });
  vi.stubGlobal("IntersectionObserver", class {
    constructor(private readonly tell: (entries: Array<{ isIntersecting: boolean }>) => void) {}
    observe() {
      this.tell([{ isIntersecting: true }]);
    }
    disconnect() {}
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const show = () => render(<LiveProvider store={aStore(aState())}><GrafanaView uid="one" /></LiveProvider>);
const queries = () => asked.flatMap((url) => url.searchParams.get("query") ?? []);

it("draws a dashboard from its JSON, and says that it is not Grafana", async () => {
  show();
  const rate = await screen.findByRole("region", { name: "Rate" });
  expect(await within(rate).findByText("3.08 req/s")).toBeTruthy();
  expect(screen.getByText("Drawn by Homing from the Grafana dashboard’s own JSON; not Grafana.")).toBeTruthy();
  expect(screen.getByText("simulated")).toBeTruthy();
  const lines = screen.getByRole("region", { name: "Lines" });
  expect((await within(lines).findByRole("img")).getAttribute("aria-label")).toBe("Lines, latest: worker 0 250 ms.");
  expect(within(rate).getByRole("button", { name: "About Rate" }).getAttribute("aria-describedby")).toBe("about-1");
  expect((await within(screen.getByRole("region", { name: "Broken" })).findByRole("status")).textContent).toBe("parse error: unclosed left parenthesis");
  expect(screen.getByText("Panels of type “gauge” are drawn by Grafana only.")).toBeTruthy();
});

it("opens a row that the file has closed, and asks for its panels only then", async () => {
  show();
  const row = await screen.findByRole("button", { name: "More (1 panel)" });
  expect(row.getAttribute("aria-expanded")).toBe("false");
  expect(queries()).not.toContain("vector(NaN) > 0");
  fireEvent.click(row);
  expect(window.location.hash).toBe("#/grafana?rows=9");
  expect(await within(await screen.findByRole("region", { name: "Hidden" })).findByText("No data")).toBeTruthy();
  expect(queries()).toContain("vector(NaN) > 0");
});

it("keeps range and variables in the address", async () => {
  window.location.hash = "#/grafana/one?range=5m";
  show();
  await screen.findByText("3.08 req/s");
  const first = asked.find((url) => url.pathname === "/api/prometheus/query_range")?.searchParams;
  expect(Number(first?.get("end")) - Number(first?.get("start"))).toBe(300);
  expect(first?.get("step")).toBe("5");
  fireEvent.change(screen.getByLabelText("Range"), { target: { value: "1h" } });
  expect(window.location.hash).toBe("#/grafana/one?range=1h");
  await screen.findByRole("option", { name: "1" });
  fireEvent.change(screen.getByLabelText("Worker"), { target: { value: "1" } });
  expect(window.location.hash).toBe("#/grafana/one?range=1h&var-worker=1");
  await vi.waitFor(() => expect(queries()).toContain('b{w=~"1"}'));
  fireEvent.change(screen.getByLabelText("Dashboard"), { target: { value: "two" } });
  expect(window.location.hash).toBe("#/grafana/two?range=1h");
});

it("without Prometheus says what to start, and lists what would be asked", async () => {
  prometheus = null;
  show();
  expect(await screen.findByText("homing demo --prometheus-url http://127.0.0.1:9090")).toBeTruthy();
  expect(within(screen.getByRole("region", { name: "Rate" })).getByText("rate(a[1m])")).toBeTruthy();
  expect(queries()).toEqual([]);
});
