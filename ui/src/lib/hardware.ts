/** A worker's hardware in figures. */
import type { State, WorkerState } from "../api/types";

export type Heat = "calm" | "busy" | "hot" | "unknown";

/** Below 30 % calm, above 70 % hot. */
export function heat(utilization: number | null): Heat {
  if (utilization === null) return "unknown";
  const percent = 100 * utilization;
  return percent < 30 ? "calm" : percent <= 70 ? "busy" : "hot";
}

/** Of one GPU. */
export const memoryPercent = ({ memory_used_bytes, gpu }: WorkerState): number | null =>
  memory_used_bytes === null || gpu.memory_bytes === 0 ? null : (100 * memory_used_bytes) / gpu.memory_bytes;

/** Such as `3 × NVIDIA H200`. */
export function gpuSummary(workers: State["workers"]): string {
  const counts = new Map<string, number>();
  for (const { gpu } of workers) counts.set(gpu.kind, (counts.get(gpu.kind) ?? 0) + gpu.count);
  return [...counts].map(([kind, count]) => `${count} × ${kind}`).join(", ");
}
