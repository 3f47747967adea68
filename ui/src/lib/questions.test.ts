import { expect, it } from "vitest";
import { aSnapshot, aState, aWorker } from "../fixtures";
import { aBaseline, cell } from "../quiet-fixtures";
import { questionOf, type QuestionId, questions } from "./questions";

const answer = (id: QuestionId, state = aState(), baseline: ReturnType<typeof aBaseline> | null = aBaseline()) => questionOf(questions(state, baseline), id)?.answer ?? null;

it("are answered with the figures of the moment", () => {
  const load = aSnapshot({ totals: { requests: 300, failures: 0, failures_by_kind: {}, prompt_tokens: 1_500_000, cached_tokens: 1, output_tokens: 240_000, user_model_fallbacks: 0 } });
  expect(answer("rps", aState({ load }))).toContain("Now: prompts of 5,000 tokens, answers of 800 that take 19.0 s. 60 in flight, each that long, make 3.1 requests and 2,511 tokens per second.");
  expect(answer("rps", aState({ load: null }))).not.toContain("Now:");
  expect(answer("tops")).toContain("2,000 tokens/s come from the simulated sweep");
  expect(answer("hits")).toContain("10 shared texts");
  expect(answer("hits")).toContain("90.0 %");
  expect(answer("model")).toBe("Llama-3.1-70B-Instruct-FP8 on 3 × NVIDIA H200, simulated.");
  expect(answer("benchmarks")).toContain("(Round robin, KV-aware) at 2 levels, 60 to 80 at once in virtual time");
});

it("say what is simulated, and leave out what cannot be known", () => {
  expect(answer("real")).toContain("The engines are simulated");
  expect(answer("real", aState({ simulated: false }))).toContain("Yes: engines compute");
  const unnamed = { ...aWorker(0), gpu: { kind: "", count: 1, memory_bytes: 0 } };
  expect(answer("model", aState({ simulated: false, workers: [unnamed] }))).toBe("Llama-3.1-70B-Instruct-FP8.");
  const elsewhere = aState({ router: { ...aState().router, modes: [] } });
  expect(answer("decision", elsewhere)).toBeNull();
  expect(answer("disaggregation")).toContain("No: every worker computes both");
  expect(answer("disaggregation", elsewhere)).toBeNull();
  expect(answer("real", elsewhere)).toContain("those of the target");
  expect(answer("benchmarks", aState(), null)).toContain("There is no sweep");
  expect(answer("itl", aState(), null)).not.toContain("virtual");
});

it("say where rules that weigh blocks lose, of the sweep or else of the published table", () => {
  expect(answer("crossing")).toContain("In the published table, at 180 conversations: TTFT p95 3,143 ms, round robin 732 ms; tokens per second 3,908, round robin 3,434.");
  const swept = (ttft: number) => {
    const baseline = aBaseline();
    for (const level of baseline.levels) level.cells.push(cell("kv-blocks", ttft, 45));
    return answer("crossing", aState(), baseline);
  };
  expect(swept(5000)).toContain("In this sweep, at 80 conversations: TTFT p95 5,000 ms");
  expect(swept(1)).toBeNull();
});
