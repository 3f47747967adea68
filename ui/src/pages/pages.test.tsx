import { cleanup, fireEvent, render, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LiveProvider } from "../api/live";
import type { State } from "../api/types";
import { aConversation, aDecision, aState, aStore, aWorker } from "../fixtures";
import { aBaseline } from "../quiet-fixtures";
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
    decisions: { decisions: [aDecision({}), aDecision({ number: 59, winner: 1, reason: "next in the cycle", mode: "round-robin", candidates: [] })] },
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
});

const show = (page: React.ReactNode, state: State | null = aState()) => render(<LiveProvider store={aStore(state)}>{page}</LiveProvider>);

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

it("says how to begin when there is no conversation", async () => {
  answers["api/conversations"] = { conversations: [], total: 0 };
  const load = aState().load;
  show(<Conversations />, aState({ load: load && { ...load, phase: "stopped" } }));
  expect(await screen.findByText("No conversation yet: press Start.")).toBeTruthy();
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
  const many = Array.from({ length: 12 }, (_, id) => ({ ...worker, id })) as State["workers"];
  show(<Architecture />, aState({ workers: many, load: null, last_decision: null }));
  expect(await screen.findByText("5 more workers")).toBeTruthy();
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

it("shows features with figures of the moment", async () => {
  show(<Features />);
  expect(within(await screen.findByRole("region", { name: "Prefix cache" })).getByText("6,600")).toBeTruthy();
  const drafts = within(screen.getByRole("region", { name: "Speculative decoding" }));
  expect(drafts.getByText("50.0 %")).toBeTruthy();
  expect(drafts.getAllByRole("img", { name: "Kept by position: 1: 72 %, 2: 48 %, 3: 30 %" })).toHaveLength(3);
  expect(drafts.getAllByText("K 3 · drafting 4.5 % of step time")).toHaveLength(3);
  expect(screen.getByText(/curl http:\/\/127.0.0.1:8000\/v1\/chat\/completions/)).toBeTruthy();
});
