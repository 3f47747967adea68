import type { ReactNode } from "preact/compat";
import { act, cleanup, fireEvent, render, screen, within } from "../rendering";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { api, Refused } from "../api/client";
import type { Feed } from "../api/feed";
import { LiveProvider } from "../api/live";
import type { State } from "../api/types";
import { aConversation, aDecision, aState, aStore, aWorker } from "../fixtures";
import * as notices from "../lib/notices";
import { aBaseline, point } from "../quiet-fixtures";
import { Architecture } from "./Architecture";
import { ConversationDetail } from "./ConversationDetail";
import { Conversations } from "./Conversations";
import { Features } from "./Features";
import { KvRouting } from "./KvRouting";
import { Story } from "./Story";

/** What the server answers, by the path without its query. */
let answers: Record<string, unknown>;
let asked: string[];

beforeEach(() => {
  window.location.hash = "";
  asked = [];
  const { turns: _, ...summary } = aConversation();
  answers = {
    "api/conversations": { conversations: [summary, { ...summary, id: "c-2", status: "error", title: "Another" }], total: 312 },
    "api/conversations/c-1": aConversation(),
    decisions: { decisions: [aDecision({}), aDecision({ number: 59, winner: "1", reason: "next in the cycle", mode: "round-robin", candidates: [] })] },
    "api/baseline": aBaseline(),
  };
  vi.stubGlobal("fetch", async (path: string) => {
    asked.push(path);
    const answer = answers[path.split("?")[0] ?? ""];
    return new Response(JSON.stringify(answer ?? { error: { message: "No such thing.", type: "not_found", code: null, param: null } }), { status: answer ? 200 : 404 });
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

/** Shows a page, and what it makes of later states. */
function follow(page: ReactNode, first: State) {
  let feed: Feed = { connection: "open", state: first, receivedMs: 0 };
  const listeners = new Set<() => void>();
  const store = { get: () => feed, close: () => {}, subscribe: (listener: () => void) => (listeners.add(listener), () => listeners.delete(listener)) };
  render(<LiveProvider store={store}>{page}</LiveProvider>);
  return (state: State) => act(() => {
    feed = { ...feed, state };
    for (const listener of listeners) listener();
  });
}

const show = (page: ReactNode, state: State | null = aState()) => render(<LiveProvider store={aStore(state)}>{page}</LiveProvider>);

it("lists conversations, and asks again as the address says", async () => {
  window.location.hash = "#/conversations?status=active&sort=longest";
  show(<Conversations />);
  expect(await screen.findByText("shown 2 of 312")).toBeTruthy();
  expect(asked[0]).toBe("api/conversations?limit=100&status=active&sort=longest");
  const link = screen.getByRole("link", { name: "Another" });
  expect(link.getAttribute("href")).toBe("#/conversations/c-2");
  expect(within(link.closest("tr") as HTMLElement).getByText("error")).toBeTruthy();
  fireEvent.change(screen.getByLabelText("Status"), { target: { value: "error" } });
  expect(window.location.hash).toBe("#/conversations?status=error&sort=longest");
  fireEvent.click(link.closest("tr") as HTMLElement);
  expect(window.location.hash).toBe("#/conversations/c-2");
});

it.each([
  ["stopped", "No conversation yet: press Start.", "No conversation has an answered turn yet: press Start."],
  ["waiting", "No conversation yet: load begins as soon as the workers are ready.", "No conversation has an answered turn yet: load begins as soon as the workers are ready."],
  ["running", "The first conversations are about to begin.", "No conversation has an answered turn yet."],
  ["paused", "No conversation yet.", "No conversation has an answered turn yet."],
] as const)("says how to begin when there is no conversation and load is %s", async (phase, inList, inMap) => {
  answers["api/conversations"] = { conversations: [], total: 0 };
  const load = aState().load;
  const state = aState({ load: load && { ...load, phase } });
  show(<Conversations />, state);
  expect(await screen.findByText(inList)).toBeTruthy();
  show(<KvRouting />, state);
  expect(await screen.findByText(inMap)).toBeTruthy();
});

it("shows a conversation turn by turn", async () => {
  show(<ConversationDetail id="c-1" />);
  const second = await screen.findByRole("region", { name: "Turn 2" });
  expect(within(second).getByText("4,384 of 4,431 prompt tokens cached")).toBeTruthy();
  expect(within(second).getByText(/no answer in 30 s/)).toBeTruthy();
  expect(within(second).getByText("137 of 138")).toBeTruthy();
  const first = screen.getByRole("region", { name: "Turn 1" });
  fireEvent.click(within(first).getByRole("button", { name: "Show all (3,826 tokens)" }));
  expect(within(first).getByRole("button", { name: "Show less" })).toBeTruthy();
  expect(within(first).getByText("Second.").tagName).toBe("P");
  expect(within(screen.getByRole("region", { name: "Turn 3" })).getByRole("status").textContent).toContain("Waiting for the first token");
});

it("passes the server's refusal on", async () => {
  show(<ConversationDetail id="gone" />);
  expect((await screen.findByRole("alert")).textContent).toBe("No such thing.");
});

it("draws the system, whatever the number of workers", async () => {
  const { container, unmount } = show(<Architecture />);
  expect(container.querySelectorAll("[data-pulse]")).toHaveLength(4);
  expect(screen.getByText("http://127.0.0.1:8000/metrics")).toBeTruthy();
  unmount();
  const [worker] = aState().workers;
  const many = Array.from({ length: 12 }, (_, id) => ({ ...worker, id: String(id) })) as State["workers"];
  show(<Architecture />, aState({ workers: many, load: null, last_decision: null }));
  expect(await screen.findByText("5 more workers")).toBeTruthy();
});

it("says nothing of a cache whose size nobody tells", () => {
  const one = (total_blocks: number) => aState({ workers: [aWorker(0, { utilization: 0.5, cache: { total_blocks, active_blocks: 0, cached_blocks: 0, hit_pct: null } })] });
  const known = show(<Architecture />, one(1000));
  expect(screen.getByText("0 %")).toBeTruthy();
  known.unmount();
  show(<Architecture />, one(0));
  expect(screen.queryByText("0 %")).toBeNull();
});

it("draws what the deployment consists of", async () => {
  const parts: State["parts"] = [
    { kind: "platform", name: "Kubernetes", detail: "1.34" },
    { kind: "events", name: "NATS", detail: "nats://nats:4222" },
    { kind: "metrics", name: "Prometheus", detail: null },
  ];
  show(<Architecture />, aState({ parts, grafana_url: "https://booth/grafana" }));
  expect(await screen.findByText("nats://nats:4222")).toBeTruthy();
  expect(screen.getByText("← KV events, NATS")).toBeTruthy();
  expect(screen.queryByText("Prometheus, Grafana")).toBeNull();
  expect(screen.getByRole("link", { name: "https://booth/grafana" })).toBeTruthy();
});

it("tells the four stages at the load that is asked for, and which one runs", () => {
  window.location.hash = "#/story?level=180";
  const quiet = { ...aWorker(0).speculation, drafts: 0, drafted_tokens: 0, accepted_tokens: 0 };
  show(<Story />, aState({ workers: [aWorker(0, { speculation: quiet })] }));
  expect(screen.getAllByRole("listitem")).toHaveLength(4);
  expect(screen.getByRole<HTMLInputElement>("radio", { name: "180" }).checked).toBe(true);
  expect(screen.getByText("running now").closest("li")?.textContent).toContain("KV-aware");
  expect(screen.getByText("simulated sweep")).toBeTruthy();
  expect(screen.getByText("Stage 2: KV-aware")).toBeTruthy();
});

it("runs another stage at the press of a button, if it may", async () => {
  window.location.hash = "#/story";
  const profiles = ["h200-llama-70b-fp8", "h200-llama-70b-fp8-draft", "h200-llama-70b-fp8-eagle3"];
  const quiet = { ...aWorker(0).speculation, drafts: 0, drafted_tokens: 0, accepted_tokens: 0 };
  const workers = [aWorker(0, { speculation: quiet })];
  const router = { ...aState().router, mode: "round-robin" };
  const { unmount } = show(<Story />, aState({ profiles, workers, router }));
  expect(screen.getAllByRole("button", { name: /^Run now: stage/ })).toHaveLength(3);
  const replaced = vi.spyOn(api, "replaceWorkers").mockResolvedValue({});
  const routed = vi.spyOn(api, "router").mockResolvedValue(router);
  fireEvent.click(screen.getByRole("button", { name: "Run now: stage 4, + EAGLE-3" }));
  await vi.waitFor(() => expect(routed).toHaveBeenCalledWith({ mode: "kv" }));
  expect(replaced).toHaveBeenCalledWith("h200-llama-70b-fp8-eagle3");
  unmount();
  show(<Story />, aState({ profiles, workers, router, control: { token_required: true, granted: false } }));
  expect(screen.getAllByRole<HTMLButtonElement>("button", { name: /^Run now: stage/ }).every((button) => button.disabled)).toBe(true);
});

/** Three workers of a profile under round robin, whose ids begin at `first`. */
function fleet(engine: string, first: number, change: Partial<State> = {}): State {
  const speculation = { ...aWorker(0).speculation, drafts: 0, drafted_tokens: 0, accepted_tokens: 0 };
  const workers = [0, 1, 2].map((index) => aWorker(first + index, { engine, speculation, drafter: engine.endsWith("eagle3") ? "eagle3" : "none" }));
  return aState({ workers, profiles: ["base", "base-draft", "base-eagle3"], router: { ...aState().router, mode: "round-robin" }, ...change });
}
const stage = (name: string) => screen.getByRole<HTMLButtonElement>("button", { name: `Run now: stage ${name}` });

it("runs a stage once, however often its button is pressed before workers have changed", async () => {
  window.location.hash = "#/story";
  const update = follow(<Story />, fleet("base", 0));
  const replaced = vi.spyOn(api, "replaceWorkers").mockResolvedValue({});
  const routed = vi.spyOn(api, "router").mockResolvedValue(aState().router);
  fireEvent.click(stage("4, + EAGLE-3"));
  await vi.waitFor(() => expect(routed).toHaveBeenCalledOnce());
  await act(async () => undefined);
  expect(stage("4, + EAGLE-3").disabled).toBe(true);
  stage("4, + EAGLE-3").click();
  // Both kinds are there, and then the mode alone is missing.
  const [old, young] = [fleet("base", 0), fleet("base-eagle3", 3)];
  update({ ...old, workers: [...old.workers, ...young.workers] });
  update(young);
  expect(stage("1, Round robin").disabled).toBe(true);
  update({ ...young, router: { ...young.router, mode: "kv" } });
  expect(stage("1, Round robin").disabled).toBe(false);
  expect(replaced).toHaveBeenCalledOnce();
});

it("waits five seconds for a stage that was accepted and does not come", async () => {
  window.location.hash = "#/story";
  follow(<Story />, fleet("base", 0));
  vi.spyOn(api, "replaceWorkers").mockResolvedValue({});
  vi.spyOn(api, "router").mockResolvedValue(aState().router);
  vi.useFakeTimers();
  try {
    fireEvent.click(stage("4, + EAGLE-3"));
    // The answer, and what follows from it.
    await act(async () => void (await vi.advanceTimersByTimeAsync(0)));
    await act(async () => void (await vi.advanceTimersByTimeAsync(4_900)));
    expect(stage("4, + EAGLE-3").disabled).toBe(true);
    await act(async () => void (await vi.advanceTimersByTimeAsync(200)));
    expect(stage("4, + EAGLE-3").disabled).toBe(false);
  } finally {
    vi.useRealTimers();
  }
});

it("says why a stage was refused, and lets it be tried again", async () => {
  window.location.hash = "#/story";
  follow(<Story />, fleet("base", 0));
  vi.spyOn(api, "replaceWorkers").mockRejectedValue(new Refused("the limit of 6 workers is reached; see --max-workers", 409));
  const told = vi.spyOn(notices, "report");
  fireEvent.click(stage("4, + EAGLE-3"));
  await vi.waitFor(() => expect(told).toHaveBeenCalledWith("Workers are still leaving, or --max-workers is too small: the limit of 6 workers is reached; see --max-workers"));
  await vi.waitFor(() => expect(stage("4, + EAGLE-3").disabled).toBe(false));
});

it("explains “Run now” where it is offered, and as far as it goes there", () => {
  window.location.hash = "#/story";
  const said = (state: State) => {
    const { container, unmount } = show(<Story />, state);
    const text = container.querySelector(".method")?.textContent ?? "";
    const offered = screen.queryAllByRole("button", { name: /^Run now: stage/ }).length;
    unmount();
    return [offered, /“Run now”.*/.exec(text)?.[0] ?? null];
  };
  expect(said(fleet("base", 0))).toEqual([3, "“Run now” puts simulated workers of the stage's profile in the place of those that run, and sets the router's mode: the new workers' caches begin empty."]);
  expect(said(fleet("mine", 0))).toEqual([1, "“Run now” sets the router's mode."]);
  expect(said(fleet("mine", 0, { router: { ...aState().router, mode: "round-robin", modes: ["round-robin"] } }))).toEqual([0, null]);
  expect(said(fleet("base", 0, { profiles: [] }))).toEqual([0, null]);
});

it("says that figures of the running system are not its own yet while the window reaches back to other workers", async () => {
  window.location.hash = "#/story";
  const state = fleet("base-eagle3", 3, { router: { ...aState().router, mode: "kv" } });
  const load = { ...aState().load, running_s: 300 } as NonNullable<State["load"]>;
  const before = (ids: string[], seconds: number) => point(state.at_ms - 1000 * seconds, { in_flight: ids.map((worker) => ({ worker, in_flight: 20 })) });
  answers["api/history"] = { points: [before(["0", "1", "2"], 50), before(["3", "4", "5"], 40)] };
  const update = follow(<Story />, { ...state, load });
  expect(screen.getByText(/^Stage 4: KV-aware \+ EAGLE-3/)).toBeTruthy();
  // 60 s of the window and the 24 s of the longest answers.
  expect(await screen.findByText("The window still holds requests from before workers joined or left (another 34 s).")).toBeTruthy();
  update({ ...state, at_ms: state.at_ms + 34_000, load: { ...load, running_s: 334 } });
  expect(screen.queryByText(/The window still holds/)).toBeNull();
});

it("explains the last decision and holds another", async () => {
  show(<KvRouting />);
  const table = await screen.findByRole("table");
  expect(within(table).getByText("1,276.0")).toBeTruthy();
  expect(within(table).getByText("not a candidate: has no free slot")).toBeTruthy();
  // Once large, once among all turns.
  expect(await screen.findAllByRole("listitem", { name: "worker 2 held 137 of 138 blocks; chosen, computed 1" })).toHaveLength(2);
  fireEvent.click(await screen.findByRole("button", { name: /#59/ }));
  expect(window.location.hash).toContain("decision=59");
  expect(screen.getByRole("heading", { name: "Decision #59" })).toBeTruthy();
  expect(screen.getByText("No cost: workers take turns.")).toBeTruthy();
});

it("shows the formula of kv-blocks", async () => {
  const candidates = aDecision({}).candidates.map((candidate) => ({ ...candidate, prefill_blocks: 80, decode_blocks: 10, cost: 90 }));
  answers["decisions"] = { decisions: [] };
  const router = { ...aState().router, mode: "kv-blocks", overlap_score_weight: 1 };
  show(<KvRouting />, aState({ router, last_decision: aDecision({ mode: "kv-blocks", candidates }) }));
  expect(await screen.findAllByText("1.00 × 80.00 + 10 = 90.00")).toHaveLength(2);
});

it("says nothing of drafts where no worker makes any", async () => {
  const speculation = { ...aWorker(0).speculation, drafts: 0, drafted_tokens: 0, accepted_tokens: 0 };
  show(<Features />, aState({ workers: [aWorker(0, { speculation })] }));
  const card = within(await screen.findByRole("region", { name: "Speculative decoding" }));
  expect(card.queryByRole("list")).toBeNull();
  expect(card.getByText(/do not draft/)).toBeTruthy();
});

it("leaves out of drafts what an engine of others does not report", async () => {
  const speculation = { ...aWorker(0).speculation, draft_length: null, draft_time_pct: null, verify_time_pct: null };
  show(<Features />, aState({ workers: [aWorker(0, { speculation })] }));
  const card = within(await screen.findByRole("region", { name: "Speculative decoding" }));
  expect(card.getByText("2.50")).toBeTruthy();
  expect(card.queryByText(/step time|K –/)).toBeNull();
});

it("shows features with figures of the moment", async () => {
  show(<Features />);
  expect(within(await screen.findByRole("region", { name: "Prefix cache" })).getByText("6,600")).toBeTruthy();
  const drafts = within(screen.getByRole("region", { name: "Speculative decoding" }));
  expect(drafts.getByText("50.0 %")).toBeTruthy();
  expect(drafts.getAllByRole("img", { name: "Kept by position: 1: 72 %, 2: 48 %, 3: 30 %" })).toHaveLength(3);
  expect(drafts.getAllByText("K 3 · drafting 4.5 % of step time")).toHaveLength(3);
  expect(screen.getByText(/curl http:\/\/127.0.0.1:8000\/v1\/chat\/completions/)).toBeTruthy();
});
