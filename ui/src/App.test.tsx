import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { App } from "./App";
import { api } from "./api/client";
import { LiveProvider } from "./api/live";
import { aStore } from "./fixtures";
import { cleanup, render, screen } from "./rendering";

vi.mock("./pages/Features", () => {
  throw new Error("404");
});
vi.mock("./pages/Story", () => {
  throw new Error("404");
});

const NOW = 1_800_000_000_000;
const reload = vi.fn();

beforeEach(() => {
  vi.spyOn(Date, "now").mockReturnValue(NOW);
  vi.spyOn(window.location, "reload").mockImplementation(reload);
  vi.spyOn(api, "isThere").mockResolvedValue(true);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  reload.mockReset();
  sessionStorage.clear();
  window.location.hash = "";
});

const open = (hash: string) => {
  window.location.hash = hash;
  render(<LiveProvider store={aStore(null)}><App booth={null} /></LiveProvider>);
};

it("loads the console anew where the file of a page is gone", async () => {
  open("#/features");
  await vi.waitFor(() => expect(reload).toHaveBeenCalledOnce());
  expect(sessionStorage.getItem("homing-reloaded")).toBe(String(NOW));
});

it("does so once a minute, and says then that the page cannot be loaded", async () => {
  sessionStorage.setItem("homing-reloaded", String(NOW - 59_000));
  open("#/story");
  expect((await screen.findByRole("alert")).textContent).toContain("This page cannot be loaded. Reload it;");
  expect(reload).not.toHaveBeenCalled();
});
