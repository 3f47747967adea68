import { describe, expect, it } from "vitest";
import type { State, TurnNumberFigures } from "../api/types";
import { aDecision, aSnapshot, aState } from "../fixtures";
import { advance, begin, canWalk, caption, SCENES, stop, type Walk } from "./attract";

const turn = (turn: number, ttft: number, samples = 50): TurnNumberFigures => ({ turn, ttft_ms_p50: ttft, ttft_ms_p95: 2 * ttft, samples, cached_pct: 79.4 });
const routed = (mode: string, change: Partial<State> = {}) => aState({ router: { ...aState().router, mode }, ...change });
const measured = (mode: string) =>
  routed(mode, { load: aSnapshot({ by_mode: [{ mode: "round-robin", turns: [turn(1, 40), turn(2, 109), turn(3, 146)] }, { mode: "kv", turns: [turn(1, 40), turn(2, 44), turn(3, 45), turn(4, 46, 3)] }] }) });
const inScene = (scene: number, change: Partial<Walk> = {}): Walk => ({ scene, sinceMs: 0, before: "kv", askedMs: null, ...change });

describe("the walk", () => {
  it("begins with round robin, and starts load that is stopped", () => {
    const { walk, effects } = begin(aState({ load: aSnapshot({ phase: "stopped" }) }), 1000);
    expect(walk).toEqual({ scene: 0, sinceMs: 1000, before: "kv", askedMs: 1000 });
    expect(effects).toEqual([{ kind: "open", href: "#/" }, { kind: "route", mode: "round-robin" }, { kind: "start" }]);
    expect(begin(routed("round-robin"), 0).effects).toEqual([{ kind: "open", href: "#/" }]);
  });

  it("stays until a scene has something to show, but not for ever", () => {
    const at = (state: State, seconds: number) => advance(inScene(0), state, seconds * 1000).walk?.scene;
    expect(at(measured("round-robin"), 10)).toBe(0);
    expect(at(measured("round-robin"), 20)).toBe(1);
    expect(at(routed("round-robin"), 60)).toBe(0);
    expect(at(routed("round-robin"), 120)).toBe(1);
  });

  it("switches the mode and opens the next page", () => {
    expect(advance(inScene(0), measured("round-robin"), 30_000).effects).toEqual([{ kind: "open", href: "#/" }, { kind: "route", mode: "kv" }]);
    expect(advance(inScene(2), measured("kv"), 30_000).effects).toEqual([{ kind: "open", href: "#/routing" }]);
  });

  it("begins again after the last scene, and remembers what was set", () => {
    const last = SCENES.length - 1;
    const { walk, effects } = advance(inScene(last, { before: "least-loaded" }), measured("kv"), 60_000);
    expect(walk).toMatchObject({ scene: 0, before: "least-loaded" });
    expect(effects).toContainEqual({ kind: "route", mode: "round-robin" });
  });

  it("waits for the server to show the mode, then gives up", () => {
    const walk = inScene(1, { askedMs: 0 });
    expect(advance(walk, routed("round-robin"), 5000)).toEqual({ walk, effects: [] });
    expect(advance(walk, routed("kv"), 5000).walk).toEqual({ ...walk, askedMs: null });
    expect(advance(walk, routed("round-robin"), 11_000)).toEqual({ walk: null, effects: [] });
  });

  it("ends without a word when somebody else chooses a mode", () => {
    expect(advance(inScene(2), routed("least-loaded"), 5000)).toEqual({ walk: null, effects: [] });
  });

  it("puts back the mode that was set", () => {
    expect(stop(inScene(0), routed("round-robin"))).toEqual([{ kind: "route", mode: "kv" }]);
    expect(stop(inScene(3), routed("kv"))).toEqual([]);
    // Asked for and not yet shown.
    expect(stop(inScene(0, { askedMs: 0 }), routed("kv"))).toEqual([{ kind: "route", mode: "kv" }]);
  });

  it("needs control, load and both modes", () => {
    expect(canWalk(aState())).toBe(true);
    expect(canWalk(aState({ load: null }))).toBe(false);
    expect(canWalk(aState({ control: { token_required: true, granted: false } }))).toBe(false);
    expect(canWalk(aState({ router: { ...aState().router, modes: [] } }))).toBe(false);
  });
});

describe("captions", () => {
  const said = (scene: number, state: State) => caption(inScene(scene), state);

  it("have the figures of the state", () => {
    expect(said(0, measured("round-robin"))).toBe("Round robin: at turn 3, 79 % of a prompt is cached; first token after 146 ms (median).");
    expect(said(2, measured("kv"))).toBe("Turn 3: first token after 45 ms KV-aware, 146 ms with round robin (medians).");
    expect(said(3, aState({ last_decision: aDecision({}) }))).toBe("Request 60: worker 0 holds 115 of its 115 blocks, and gets it.");
    expect(said(4, aState())).toMatch(/^Simulated sweep, 60 conversations: 2,439 tokens\/s with round robin, 6,891 /);
  });

  it("have none where nothing is measured", () => {
    for (const index of SCENES.slice(0, 4).keys()) expect(said(index, aState({ last_decision: null }))).not.toMatch(/\d/);
  });
});
