import { expect, it } from "vitest";
import { type Choice, plainReason } from "./reason";

const on = (worker: string, overlap_blocks: number, in_flight = 20, more = {}) => ({ worker, overlap_blocks, in_flight, cost: 1, ...more });
const choice = (candidates: Choice["candidates"], change: Partial<Choice> = {}): Choice => ({ mode: "kv", blocks: 115, queued_ms: 0, candidates, ...change });

it.each<[Choice, string | null, string]>([
  [choice([on("1", 115, 20, { ttft_ms: 201 }), on("0", 20, 20, { ttft_ms: 611 }), on("2", 0, 20, { ttft_ms: 820 })]), "1", "worker 1 holds 115 of 115 blocks: first token in 0.2 s instead of 0.6 s"],
  [choice([on("1", 115), on("0", 99)]), "1", "worker 1 holds 115 of 115 blocks; no other more than 99"],
  [choice([on("1", 115, 18), on("0", 115, 24)]), "1", "worker 1 holds 115 of 115 blocks, and so do others. It is the least busy: 18 in flight."],
  [choice([on("1", 115, 30), on("0", 115, 24)]), "1", "worker 1 holds 115 of 115 blocks, and so do others."],
  [choice([on("1", 0, 18), on("0", 0, 24)]), "1", "no worker holds any of the 115 blocks, so the one that is soonest done takes it. It is the least busy: 18 in flight."],
  [choice([on("1", 3, 18), on("0", 110, 60)]), "1", "worker 0 holds more (110 of 115 blocks, here 3), but it would have taken longer in all: 60 in flight, here 18"],
  [choice([on("1", 3)]), "1", "worker 1 holds 3 of 115 blocks, and no other worker could take it"],
  [choice([on("1", 115), on("0", 0)], { queued_ms: 1250 }), "1", "After 1.3 s in the queue for a free slot: worker 1 holds 115 of 115 blocks; no other more than 0"],
  [choice([on("1", 12), on("0", 99)], { mode: "round-robin" }), "1", "caches are not looked at: worker 1 holds 12 of 115 blocks; worker 0 holds 99"],
  [choice([on("1", 12)], { mode: "random" }), "1", "caches are not looked at: worker 1 holds 12 of 115 blocks"],
  [choice([], { mode: "kv" }), null, "Routed by KV-aware."],
])("a reason in plain words (%#)", (one, winner, expected) => expect(plainReason(one, winner)).toBe(expected));
