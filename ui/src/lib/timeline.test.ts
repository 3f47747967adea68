import { describe, expect, it } from "vitest";
import { aConversation, aRecord } from "../fixtures";
import { cachedShare, commonScale, segments, timeline } from "./timeline";

describe("a turn's timeline", () => {
  it("takes the server's timing", () => {
    const line = timeline(aRecord({ e2e_ms: 1000, server_timing: { prefill_wait_time_ms: 20, prefill_time_ms: 180 } }));
    expect(line).toEqual({
      totalMs: 1000,
      parts: [{ phase: "intake", ms: 20 }, { phase: "prefill", ms: 180 }, { phase: "decode", ms: 800 }],
    });
  });

  it("falls back to what the client saw", () => {
    const { server_timing: _, ...bare } = aRecord({ e2e_ms: 1000, ttft_ms: 250 });
    expect(timeline(bare)?.parts).toEqual([{ phase: "first", ms: 250 }, { phase: "decode", ms: 750 }]);
  });

  it("never exceeds the total, and does not exist without one", () => {
    const line = timeline(aRecord({ e2e_ms: 100, server_timing: { prefill_wait_time_ms: 90, prefill_time_ms: 90 } }));
    expect(line?.parts.map((part) => part.ms)).toEqual([90, 10, 0]);
    const { e2e_ms: _, ...endless } = aRecord({});
    expect(timeline(endless)).toBeNull();
    expect(timeline(null)).toBeNull();
  });

  it("shares one scale over a conversation and marks what is too short to see", () => {
    expect(commonScale(aConversation().turns)).toBe(15_000);
    const line = timeline(aRecord({ e2e_ms: 10_000, server_timing: { prefill_wait_time_ms: 0, prefill_time_ms: 20 } }));
    expect(line && segments(line, 20_000)).toEqual([
      { phase: "prefill", ms: 20, share: 0.001, widened: true },
      { phase: "decode", ms: 9980, share: 0.499, widened: false },
    ]);
    expect(line && segments(line, 0)).toEqual([]);
  });

  it("has a cached share only where there is a prompt", () => {
    expect(cachedShare(aRecord({ prompt_tokens: 200, cached_tokens: 150 }))).toBe(75);
    expect(cachedShare(aRecord({ prompt_tokens: 0 }))).toBeNull();
  });
});
