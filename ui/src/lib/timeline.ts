/**
 * Where the time of a turn went: intake, prefill, decode. Intake is what an engine needs until it
 * computes: its own handling of a request, and a wait only where its batch is full. From the server's own timing where it
 * gives one; else the client's view, which only knows "until the first token" and "after it".
 */
import type { RequestRecord, Turn } from "../api/types";

export type Phase = "intake" | "prefill" | "first" | "decode";
export type Part = { phase: Phase; ms: number };
export type Timeline = { parts: Part[]; totalMs: number };

export const PHASE_LABEL: Record<Phase, string> = {
  intake: "intake",
  prefill: "prefill",
  first: "to first token",
  decode: "decode",
};

export const PHASE_HINT: Record<Phase, string> = {
  intake: "Until the engine computed: what it needs to take a request in, and a wait only where its batch was full",
  prefill: "The part of the prompt that was not cached, computed",
  first: "From sending to the first token, as the client saw it",
  decode: "The answer, token by token",
};

/** `null` for a request that has no end-to-end latency. */
export function timeline(record: RequestRecord | null): Timeline | null {
  const total = record?.e2e_ms;
  if (!record || total === undefined) return null;
  const wait = record.server_timing?.prefill_wait_time_ms;
  const prefill = record.server_timing?.prefill_time_ms;
  if (typeof wait === "number" && typeof prefill === "number") {
    const intake = Math.min(wait, total);
    const computed = Math.min(prefill, total - intake);
    return {
      totalMs: total,
      parts: [
        { phase: "intake", ms: intake },
        { phase: "prefill", ms: computed },
        { phase: "decode", ms: total - intake - computed },
      ],
    };
  }
  if (record.ttft_ms === undefined) return null;
  const first = Math.min(record.ttft_ms, total);
  return { totalMs: total, parts: [{ phase: "first", ms: first }, { phase: "decode", ms: total - first }] };
}

/** The longest turn: what 100 % means in every bar of a conversation. */
export function commonScale(turns: ReadonlyArray<Turn>): number {
  return turns.reduce((longest, turn) => Math.max(longest, timeline(turn.answered)?.totalMs ?? 0), 0);
}

/** A part below this share of the scale is drawn wider than it is, so that it can be seen. */
export const LEAST_SHARE = 0.004;

export type Segment = Part & {
  /** Of the scale, from 0 to 1. */
  share: number;
  /** Drawn at the least width: not to scale. */
  widened: boolean;
};

/** What took no time is left out. */
export function segments(line: Timeline, scaleMs: number): Segment[] {
  if (scaleMs <= 0) return [];
  return line.parts
    .filter((part) => part.ms >= 0.05)
    .map((part) => {
      const share = part.ms / scaleMs;
      return { ...part, share, widened: share < LEAST_SHARE };
    });
}

/** Cached prompt tokens in a hundred. */
export function cachedShare(record: RequestRecord): number | null {
  const { prompt_tokens: prompt, cached_tokens: cached } = record;
  return prompt === undefined || cached === undefined || prompt === 0 ? null : (100 * cached) / prompt;
}
