import { describe, expect, it } from "vitest";
import type { Phase } from "../api/types";
import { loadControls, unreachable } from "./controls";
import { aState, load } from "../quiet-fixtures";

const inPhase = (phase: Phase) => aState({ load: load({ phase }) });
const pressable = (phase: Phase) => {
  const controls = loadControls("open", inPhase(phase));
  if (!controls) throw new Error("no controls");
  return Object.values(controls)
    .filter((button) => button.enabled)
    .map((button) => button.action);
};

describe("the buttons", () => {
  it("follow the phase of the load", () => {
    expect(pressable("stopped")).toEqual(["start"]);
    expect(pressable("running")).toEqual(["stop", "pause"]);
    expect(pressable("paused")).toEqual(["resume", "stop", "resume"]);
    expect(pressable("draining")).toEqual(["stop"]);
    expect(pressable("waiting")).toEqual(["stop"]);
  });

  it("are dead without a connection or without control, and say why", () => {
    const states = [loadControls("down", inPhase("running")), loadControls("connecting", null), loadControls("open", aState({ control: { token_required: true, granted: false } }))];
    for (const controls of states) {
      expect(controls).not.toBeNull();
      for (const button of Object.values(controls ?? {})) {
        expect(button.enabled).toBe(false);
        expect(button.why).toBeTruthy();
      }
    }
  });

  it("do not exist without a load generator", () => {
    expect(loadControls("open", aState({ load: null }))).toBeNull();
  });
});

it("names where load runs when it cannot be reached there", () => {
  const away = aState({ load: null, load_at: { kind: "elsewhere", url: "http://loadgen:9000", error: "connection refused." } });
  const why = "The load generator at http://loadgen:9000 is unreachable: connection refused.";
  expect(unreachable(away.load_at)).toBe(why);
  expect(loadControls("open", away)?.start).toMatchObject({ enabled: false, why });
  expect(unreachable({ kind: "elsewhere", url: "http://loadgen:9000", error: null })).toBeNull();
  expect(loadControls("open", aState({ load: null, load_at: { kind: "none" } }))).toBeNull();
});
