import { act, cleanup, fireEvent, render, screen } from "../../rendering";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { api, Refused } from "../../api/client";
import { aSnapshot, aState } from "../../fixtures";
import { LoadSettings } from "./LoadSettings";
import { REST_MS } from "./SettingField";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  cleanup();
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const show = (change = {}) => {
  const load = aSnapshot();
  render(<LoadSettings connection="open" state={aState({ load, ...change })} load={load} />);
};
const input = (name: string) => screen.getByLabelText<HTMLInputElement>(name);
const type = (name: string, value: string) => fireEvent.input(input(name), { target: { value } });
const rest = () => act(async () => void (await vi.advanceTimersByTimeAsync(REST_MS)));

it("sends what was typed last, once", async () => {
  const sent = vi.spyOn(api, "settings").mockResolvedValue(aSnapshot());
  show();
  type("Turns per conversation, to", "7");
  type("Turns per conversation, to", "8");
  expect(sent).not.toHaveBeenCalled();
  await rest();
  expect(sent.mock.calls).toEqual([[{ turns: { start: 3, end: 8 } }]]);
  expect(input("Turns per conversation, to").value).toBe("8");
});

it("shows a refusal at the field that the server names, and keeps what was typed", async () => {
  vi.spyOn(api, "settings").mockRejectedValue(new Refused("rates must be above 0", 400, null, "arrivals_per_second"));
  show();
  type("New conversations", "0");
  await rest();
  const field = input("New conversations");
  expect([field.value, field.getAttribute("aria-invalid")]).toEqual(["0", "true"]);
  expect(document.getElementById(field.getAttribute("aria-describedby") ?? "")?.textContent).toBe("rates must be above 0");
  expect(input("Requests at most").getAttribute("aria-invalid")).toBe("false");
});

it("sends nothing that is no number", async () => {
  const sent = vi.spyOn(api, "settings").mockResolvedValue(aSnapshot());
  show();
  type("Think time between turns, from", "soon");
  await rest();
  expect(sent).not.toHaveBeenCalled();
  expect(screen.getByRole("alert").textContent).toBe("Please enter a number.");
});

it("changes what conversations begin with", async () => {
  const sent = vi.spyOn(api, "settings").mockResolvedValue(aSnapshot());
  show();
  fireEvent.change(screen.getByLabelText("Conversations begin with"), { target: { value: "own" } });
  await rest();
  expect(sent).toHaveBeenCalledWith({ starters: "unique", zipf: null });
});

it("may be read but not changed without control, or while load elsewhere is unreachable", () => {
  show({ load_at: { kind: "elsewhere", url: "http://loadgen:9000", error: "connection refused" } });
  expect(input("New conversations").disabled).toBe(true);
  expect(screen.getByText("The load generator at http://loadgen:9000 is unreachable: connection refused.")).toBeTruthy();
});
