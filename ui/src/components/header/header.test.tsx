import { act, cleanup, fireEvent, render, screen } from "../../rendering";
import { afterEach, describe, expect, it, vi } from "vitest";
import { api, controlToken } from "../../api/client";
import type { Feed } from "../../api/feed";
import { LiveProvider } from "../../api/live";
import { aState, load, windowFigures } from "../../quiet-fixtures";
import { Header } from "../Header";
import { TokenForm } from "./ViewOnly";

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  controlToken.clear();
});

function show(first: Partial<Feed>) {
  let feed: Feed = { connection: "open", state: aState(), receivedMs: 0, ...first };
  const listeners = new Set<() => void>();
  const store = { get: () => feed, close: () => {}, subscribe: (listener: () => void) => (listeners.add(listener), () => listeners.delete(listener)) };
  render(<LiveProvider store={store}><Header page="dashboard" /></LiveProvider>);
  return (change: Partial<Feed>) => act(() => {
    feed = { ...feed, ...change };
    for (const listener of listeners) listener();
  });
}
const button = (name: string) => screen.getByRole<HTMLButtonElement>("button", { name });
const settle = () => act(async () => undefined);

describe("the header", () => {
  it("starts and stops by the rules, and shows a refusal until it is dismissed", async () => {
    const update = show({ state: aState({ load: load({ phase: "stopped" }) }) });
    expect(document.title).toBe("A title");
    expect([button("Start").disabled, button("Stop").disabled]).toEqual([false, true]);
    const pressed = vi.spyOn(api, "load").mockRejectedValue(new Error("Load is busy."));
    fireEvent.click(button("Start"));
    await settle();
    expect(pressed).toHaveBeenCalledWith("start");
    expect(screen.getByRole("alert").textContent).toBe("Load is busy.");
    fireEvent.click(button("Dismiss"));
    expect(screen.queryByRole("alert")).toBeNull();
    update({ state: aState() });
    expect([button("Start").disabled, button("Stop").disabled]).toEqual([true, false]);
    update({ connection: "down" });
    expect([button("Start").disabled, button("Stop").disabled]).toEqual([true, true]);
    expect(screen.getByText(/^Stale since/)).toBeTruthy();
    expect(document.documentElement.hasAttribute("data-stale")).toBe(true);
    update({ connection: "open", state: aState({ load: null }) });
    expect(screen.queryByRole("button", { name: "Start" })).toBeNull();
    expect(screen.getByText("No load generator.")).toBeTruthy();
  });

  it("warns of failing load, once until it is another", () => {
    const failing = (kind: string) => aState({ load: load({ last_failure: { failure: { kind, message: "refused" }, ago_s: 1 }, window: windowFigures({ failures: 7 }) }) });
    const update = show({ state: failing("connect") });
    expect(screen.getByRole("alert").textContent).toContain("Load cannot reach its target: refused.");
    fireEvent.click(button("Dismiss"));
    update({ state: failing("connect") });
    expect(screen.queryByRole("alert")).toBeNull();
    update({ state: failing("stalled") });
    expect(screen.getByRole("alert").textContent).toBe("Answers stall: refused.");
  });

  it("changes the router at once, if it may", async () => {
    const update = show({});
    const changed = vi.spyOn(api, "router").mockResolvedValue(aState().router);
    const select = screen.getByLabelText<HTMLSelectElement>("Router");
    fireEvent.change(select, { target: { value: "round-robin" } });
    await vi.waitFor(() => expect(changed).toHaveBeenCalledWith({ mode: "round-robin" }));
    expect(select.value).toBe("round-robin");
    await settle();
    update({ state: aState({ control: { token_required: true, granted: false } }) });
    expect(select.disabled).toBe(true);
    expect(screen.getByText("View only")).toBeTruthy();
    expect(button("Enter token")).toBeTruthy();
  });
});

describe("the token", () => {
  const enter = async (granted: boolean) => {
    vi.spyOn(api, "state").mockResolvedValue(aState({ control: { token_required: true, granted } }));
    const onGranted = vi.fn();
    render(<TokenForm onClose={() => {}} onGranted={onGranted} />);
    fireEvent.input(screen.getByLabelText("Token"), { target: { value: " secret " } });
    fireEvent.click(button("Take control"));
    await settle();
    return onGranted;
  };

  it("is kept when the server grants control", async () => {
    expect(await enter(true)).toHaveBeenCalledOnce();
    expect(controlToken.get()).toBe("secret");
  });

  it("is dropped when it does not", async () => {
    expect(await enter(false)).not.toHaveBeenCalled();
    expect(controlToken.get()).toBeNull();
    expect(screen.getByRole("alert").textContent).toContain("does not accept");
  });
});
