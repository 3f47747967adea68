import { describe, expect, it } from "vitest";
import type { Baseline, State } from "../api/types";
import { aBaseline, aState, cell, figures, load, point, windowFigures } from "../quiet-fixtures";
import type { Scene } from "./comparable";
import { headline } from "./headline";

const ripe = windowFigures({ requests: 200, tops: 2200, ttft_ms: figures(100, 131, 200), itl_ms: figures(44, 46, 9000), e2e_ms: figures(9_000, 18_000, 200), dispatch_lag_ms: figures(0.3, 0.5, 200) });
const scene = (state: Partial<State> = {}, baseline: Baseline | null = aBaseline(), points: Scene["points"] = []): Scene => ({
  state: aState({ load: load({ running_s: 300, window: ripe }), ...state }), points, watch: null, baseline,
});
const rr = { router: { ...aState().router, mode: "round-robin" } };
const told = (one: Scene) =>
  headline(one, "No baseline.").figures.map((figure) => [figure.value, figure.unit, [figure.detail, figure.rr && `round robin ${figure.rr}`].filter(Boolean).join(", "), figure.source ? `${figure.source.name}${figure.source.simulated ? ", simulated" : ""}` : null].join(" | "));

const withBlocks = (): Baseline => {
  const baseline = aBaseline();
  for (const level of baseline.levels) level.cells.push(cell("kv-blocks", 500, 45));
  return baseline;
};
const even = (): Baseline => {
  const baseline = aBaseline();
  for (const level of baseline.levels) for (const each of level.cells.slice(1)) each.verdicts = { ttft_ms_p95: "better", tops: "not-significant" };
  return baseline;
};
const few = (): Baseline => {
  const baseline = aBaseline();
  for (const level of baseline.levels) for (const each of level.cells) each.requests = 99;
  return baseline;
};

describe("the headline", () => {
  const capacity = "60 | conversations | with KV-aware, round robin at no level | sweep, simulated";
  it.each<[string, Scene, string[]]>([
    ["is live where the window is ripe", scene(), [capacity, "5.0× | faster | 131 ms, round robin 655 ms | live, simulated", "+10 % | tokens/s | 2,200, round robin 2,000 | live, simulated"]],
    ["says when engines compute", scene({ simulated: false }, { ...aBaseline(), simulated: false }), ["60 | conversations | with KV-aware, round robin at no level | sweep", "5.0× | faster | 131 ms, round robin 655 ms | live", "+10 % | tokens/s | 2,200, round robin 2,000 | live"]],
    ["is the sweep's at the level of now under round robin", scene({ ...rr }, aBaseline(), [point(999_000, { mode: "round-robin" })]), [capacity, "1.5× | faster | 446 ms, round robin 655 ms | sweep at 60, simulated", "±0 % | tokens/s | 2,000, round robin 2,000 | sweep at 60, simulated"]],
    ["is the sweep's while load has just started", scene({ load: load({ running_s: 20, window: ripe }) }), [capacity, "1.5× | faster | 446 ms, round robin 655 ms | sweep at 60, simulated", "±0 % | tokens/s | 2,000, round robin 2,000 | sweep at 60, simulated"]],
    ["tells of a loss, too", scene({ load: null }, { ...aBaseline(), levels: aBaseline().levels.slice(1) }), ["no level |  | with KV-aware, round robin at no level | sweep, simulated", "1.1× | slower | 700 ms, round robin 637 ms | sweep at 80, simulated", "±0 % | tokens/s | 2,000, round robin 2,000 | sweep at 80, simulated"]],
    ["is about the mode that runs, if it was swept", scene({ router: { ...rr.router, mode: "kv-blocks" }, load: null }, withBlocks()), ["80 | conversations | with KV blocks, round robin at no level | sweep, simulated", "1.3× | faster | 500 ms, round robin 655 ms | sweep at 60, simulated", "±0 % | tokens/s | 2,000, round robin 2,000 | sweep at 60, simulated"]],
    ["says what is missing", scene({}, null), [" |  | No baseline. | ", " |  | No baseline. | ", " |  | No baseline. | "]],
    ["has no p95 of a sweep with few requests", scene({ load: null }, few()), [capacity, " |  | The sweep has fewer than 100 requests at 60 conversations. | ", "±0 % | tokens/s | 2,000, round robin 2,000 | sweep at 60, simulated"]],
    ["claims no difference that may be chance", scene({ load: null }, even()), [capacity, "1.5× | faster | 446 ms, round robin 655 ms | sweep at 60, simulated", " |  | No significant difference at 60 conversations. | "]],
    ["has nothing to say of modes that were not swept", scene({ load: null }, { ...aBaseline(), levels: aBaseline().levels.map((level) => ({ ...level, cells: level.cells.slice(0, 1) })) }), [" |  | The sweep has no KV-aware. | ", " |  | No baseline. | ", " |  | No baseline. | "]],
  ])("%s", (_, one, expected) => expect(told(one)).toEqual(expected));

  it("draws both on the scale of the highest level", () => {
    expect(headline(scene(), "").bars).toEqual([0.75, 0]);
  });
});
