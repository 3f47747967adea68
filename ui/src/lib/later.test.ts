import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { patiently } from "./later";

const loses = () => Promise.reject(new Error("404"));

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it("waits for a server that is away", async () => {
  let isThere = false;
  const reload = vi.fn(() => true);
  const load = vi.fn(async () => (isThere ? "a page" : Promise.reject(new Error("unreachable"))));
  const loaded = patiently(load, async () => isThere, reload);
  await vi.advanceTimersByTimeAsync(5000);
  expect([load.mock.calls.length, reload.mock.calls.length]).toEqual([3, 0]);
  isThere = true;
  await vi.advanceTimersByTimeAsync(2000);
  expect(await loaded).toBe("a page");
  expect(reload).not.toHaveBeenCalled();
});

it("loads everything anew where the server has other files by now", async () => {
  const reload = vi.fn(() => true);
  void patiently(loses, async () => true, reload);
  // However long the browser takes to leave the page.
  await vi.advanceTimersByTimeAsync(10_000);
  expect(reload).toHaveBeenCalledOnce();
});

it("gives up where that was done and does not help", async () => {
  await expect(patiently(loses, async () => true, () => false)).rejects.toThrow("404");
});
