/** A worker's hardware in figures. */
import type { State, WorkerState } from "../api/types";

export type Work = "idle" | "working" | "unknown";
/** Below this share of time, nothing worth mentioning runs. */
const IDLE = 0.05;

/** An engine that has any request computes all the time, so being busy says that it works and no more. */
export const work = (utilization: number | null): Work => (utilization === null ? "unknown" : utilization < IDLE ? "idle" : "working");

export type Room = "free" | "nearly" | "full";

/** Whether there is a place in the batch: the last tenth is nearly none, and who then waits, waits for one. */
export function room({ running, slots, waiting }: Pick<WorkerState, "running" | "slots" | "waiting">): Room {
  if (slots === 0 || running < 0.9 * slots) return "free";
  return running >= slots && waiting > 0 ? "full" : "nearly";
}

/** Of one GPU. */
export const memoryPercent = ({ memory_used_bytes, gpu }: WorkerState): number | null =>
  memory_used_bytes === null || gpu.memory_bytes === 0 ? null : (100 * memory_used_bytes) / gpu.memory_bytes;

/** Such as `3 × NVIDIA H200`; of those that are known. */
export function gpuSummary(workers: State["workers"]): string {
  const counts = new Map<string, number>();
  for (const { gpu } of workers) if (gpu.kind !== "") counts.set(gpu.kind, (counts.get(gpu.kind) ?? 0) + gpu.count);
  return [...counts].map(([kind, count]) => `${count} × ${kind}`).join(", ");
}
