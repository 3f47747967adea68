/** KV-aware routing: how it works, who holds what, and every decision with its reasons. */
import { api } from "../api/client";
import { useLive } from "../api/live";
import type { Decision } from "../api/types";
import { Notice } from "../components/Notice";
import { BlockMapPanel } from "../components/routing/BlockMapPanel";
import { DecisionPanel } from "../components/routing/DecisionPanel";
import { HitRates } from "../components/routing/HitRates";
import { HowItWorks } from "../components/routing/HowItWorks";
import { isElsewhere } from "../lib/mode";
import { usePoll } from "../lib/poll";
import { useQuery } from "../lib/route";

const LIMIT = 10;

export function KvRouting() {
  const state = useLive();
  const [query, change] = useQuery();
  const elsewhere = state === null || isElsewhere(state.router);
  const ask = (signal: AbortSignal) => (elsewhere ? Promise.resolve({ decisions: [] }) : api.decisions(LIMIT, signal));
  const { value } = usePoll(ask, elsewhere ? "none" : "decisions", 2000);
  if (!state) return <Notice>Waiting for the server…</Notice>;
  const decisions = merged(value?.decisions ?? [], state.last_decision);
  const asked = Number(query.get("decision") ?? Number.NaN);
  return (
    <>
      <HowItWorks blockSize={state.block_size} router={state.router} />
      <BlockMapPanel state={state} decisions={decisions} shown={query.get("show")} show={(show) => change({ show })} />
      {!elsewhere && <DecisionPanel decisions={decisions} router={state.router} pinned={Number.isInteger(asked) ? asked : null} pin={(number) => change({ decision: number === null ? null : String(number) })} />}
      {state.load && <HitRates load={state.load} />}
    </>
  );
}

/** The feed is newer than the list now and then. */
function merged(list: Decision[], last: Decision | null): Decision[] {
  const newest = list[0]?.number ?? 0;
  return last && last.number > newest ? [last, ...list].slice(0, LIMIT) : list;
}
