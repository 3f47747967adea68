import { act, cleanup, fireEvent, render, screen } from "../../rendering";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { api } from "../../api/client";
import type { Feed } from "../../api/feed";
import { LiveProvider } from "../../api/live";
import type { State } from "../../api/types";
import { aState } from "../../fixtures";
import type { Booth } from "../../lib/booth";
import { BoothBar } from "./BoothBar";

beforeEach(() => {
  vi.useFakeTimers();
  window.location.hash = "#/";
  vi.spyOn(api, "dashboards").mockResolvedValue({ dashboards: [], prometheus: null });
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

function show(change: Partial<Booth>, state: State = aState()) {
  let feed: Feed = { connection: "open", state, receivedMs: 0 };
  const listeners = new Set<() => void>();
  const store = { get: () => feed, close: () => {}, subscribe: (listener: () => void) => (listeners.add(listener), () => listeners.delete(listener)) };
  render(<LiveProvider store={store}><BoothBar booth={{ seconds: 30, attract: false, qr: null, ...change }} page="dashboard" /></LiveProvider>);
  return (next: State) => act(() => {
    feed = { ...feed, state: next };
    for (const listener of listeners) listener();
  });
}
const pass = (seconds: number) => act(async () => void (await vi.advanceTimersByTimeAsync(1000 * seconds)));
const press = (key: string) => fireEvent.keyDown(document.body, { key });

it("turns the page when its time is over, but not while it is held", async () => {
  show({});
  press(" ");
  await pass(60);
  expect(window.location.hash).toBe("#/");
  fireEvent.click(screen.getByRole("button", { name: "Go on" }));
  await pass(30);
  expect(window.location.hash).toBe("#/story");
});

it("turns pages by key, and past dashboards that nobody can fill", async () => {
  show({ seconds: 0 });
  await pass(1);
  press("ArrowLeft");
  expect(window.location.hash).toBe("#/features");
});

it("tells the story until a key is pressed, and puts the mode back", async () => {
  const routed = vi.spyOn(api, "router").mockResolvedValue(aState().router);
  const update = show({ attract: true });
  expect(routed.mock.calls).toEqual([[{ mode: "round-robin" }]]);
  update(aState({ router: { ...aState().router, mode: "round-robin" } }));
  expect(screen.getByRole("status").textContent).toMatch(/^Round robin: /);
  press("a");
  expect(routed).toHaveBeenLastCalledWith({ mode: "kv" });
  expect(screen.queryByRole("status")).toBeNull();
});

it("only turns pages for a viewer without control", async () => {
  const routed = vi.spyOn(api, "router");
  show({ attract: true }, aState({ control: { token_required: true, granted: false } }));
  await pass(30);
  expect(routed).not.toHaveBeenCalled();
  expect(window.location.hash).toBe("#/story");
});

it("shows a QR code for the address", () => {
  show({ qr: "https://example.org/homing" });
  expect(screen.getByRole("img", { name: "QR code: https://example.org/homing" })).toBeTruthy();
});
