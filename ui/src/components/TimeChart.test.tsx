import { act, cleanup, render, screen } from "../rendering";
import { afterEach, describe, expect, it, vi } from "vitest";
import { number } from "../lib/format";
import { THEME_EVENT } from "../lib/theme";
import { TimeChart } from "./TimeChart";

const plots = vi.hoisted(() => [] as Array<{ data: unknown; destroyed: boolean }>);
vi.mock("uplot", () => ({
  default: class {
    private readonly plot: { data: unknown; destroyed: boolean };
    constructor(_: unknown, data: unknown) {
      this.plot = { data, destroyed: false };
      plots.push(this.plot);
    }
    setData(data: unknown) {
      this.plot.data = data;
    }
    setSize() {}
    destroy() {
      this.plot.destroyed = true;
    }
  },
}));

afterEach(cleanup);

const overlay = { span: 300, objective: { value: 600, label: "p95 < 600 ms" }, marks: [], top: 1 };
const chart = (labels: string[], values: Array<Array<number | null>>) => (
  <TimeChart title="TTFT" lines={labels.map((label) => ({ label, colour: "var(--kv)" }))} times={[1, 2]} values={values} format={(value) => number(value)} overlay={overlay} />
);

describe("a chart over time", () => {
  it("is fed, made anew for another theme or other lines, and taken away", () => {
    const { rerender, unmount } = render(chart(["p50"], [[10, 20]]));
    rerender(chart(["p50"], [[10, 30]]));
    expect(plots).toHaveLength(1);
    expect(plots[0]?.data).toEqual([[1, 2], [10, 30]]);
    act(() => void window.dispatchEvent(new Event(THEME_EVENT)));
    rerender(chart(["p50", "p95"], [[10, 30], [11, null]]));
    expect(plots.map((plot) => plot.destroyed)).toEqual([true, true, false]);
    expect(screen.getByRole("img").getAttribute("aria-label")).toBe("TTFT, now: p50 30, p95 —. Objective: p95 < 600 ms.");
    unmount();
    window.dispatchEvent(new Event(THEME_EVENT));
    expect(plots).toHaveLength(3);
    expect(plots[2]?.destroyed).toBe(true);
  });
});
