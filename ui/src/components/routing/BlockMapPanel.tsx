/** The block map of one conversation, or of the latest decisions as they come. */
import { useState } from "preact/compat";
import { api } from "../../api/client";
import type { Conversation, Decision, State, Turn } from "../../api/types";
import { blockMap, blocksPerCell, type Choice, followed } from "../../lib/blockmap";
import { whenLoadBegins } from "../../lib/controls";
import { number } from "../../lib/format";
import { usePoll } from "../../lib/poll";
import { Notice } from "../Notice";
import { WorkerName } from "../WorkerName";
import { BlockGrid, BlockLegend } from "./BlockGrid";
import "./BlockMapPanel.css";

type Props = { state: State; decisions: Decision[]; /** `null`: an active conversation; "decisions": the latest ones; else a conversation's id. */ shown: string | null; show(what: string | null): void };

export function BlockMapPanel({ state, decisions, shown, show }: Props) {
  const active = usePoll((signal) => api.conversations({ limit: 60, status: "active", sort: "newest" }, signal), "active", 5000).value?.conversations ?? [];
  const [current, setCurrent] = useState<string | null>(null);
  const next = followed(current, active);
  if (next !== current) setCurrent(next);
  const id = shown === "decisions" ? null : (shown ?? next);
  const choices = active.filter((conversation) => conversation.turns_answered > 0);
  return (
    <section className="panel block-map">
      <header className="page-head">
        <h2>Block map</h2>
        <div className="tools">
          <label>
            Show
            <select value={shown ?? "newest"} onChange={(event) => show(event.currentTarget.value === "newest" ? null : event.currentTarget.value)}>
              <option value="newest">follow an active conversation</option>
              <option value="decisions">the latest decision of any request</option>
              {shown !== null && shown !== "decisions" && !choices.some((one) => one.id === shown) && <option value={shown}>the chosen conversation</option>}
              {choices.map((conversation) => (
                <option key={conversation.id} value={conversation.id}>
                  {conversation.number + 1}. {conversation.title}
                </option>
              ))}
            </select>
          </label>
        </div>
      </header>
      {shown === "decisions" && <OfDecisions decisions={decisions} blockSize={state.block_size} />}
      {shown !== "decisions" && id !== null && <OfConversation id={id} blockSize={state.block_size} />}
      {shown !== "decisions" && id === null && <Notice>No conversation has an answered turn yet{whenLoadBegins(state.load?.phase)}</Notice>}
    </section>
  );
}

/** A request and what the router saw; `null` for one that is to come. */
type Shown = { key: string; label: string; choice: Choice | null };
type Placed = Shown & { choice: Choice };

function Maps({ latest, rows, caption }: { latest: Placed; rows: Shown[]; caption: string }) {
  const scale = Math.max(latest.choice.blocks, ...rows.map((row) => row.choice?.blocks ?? 0));
  const perCell = blocksPerCell(scale);
  return (
    <>
      <p className="muted small caption">{caption}</p>
      <BlockGrid key={latest.key} map={blockMap(latest.choice, perCell)} scale={scale} />
      <BlockLegend perCell={perCell} />
      <ol className="rows">
        {rows.map(({ key, label, choice }) => (
          <li key={key} style={{ minHeight: `${0.55 * latest.choice.candidates.length}rem` }}>
            <span className="small nums">
              <b>{label}</b> <span className="muted">{choice ? `${number(choice.blocks)} blocks` : "to come"}</span>
            </span>
            {choice ? <BlockGrid map={blockMap(choice, perCell)} scale={scale} small /> : <span />}
            <span className="small">{choice && choice.winner !== null && <WorkerName worker={choice.winner} />}</span>
          </li>
        ))}
      </ol>
    </>
  );
}

function OfConversation({ id, blockSize }: { id: string; blockSize: number }) {
  const { value, error } = usePoll((signal) => api.conversation(id, signal), id, 2000);
  if (!value) return error ? <Notice error>{error}</Notice> : <Notice>Loading…</Notice>;
  const placed = value.turns.flatMap((turn, index) => ofTurn(value, turn, index));
  const latest = placed.at(-1);
  if (!latest) return <Notice>This server does not report how it routed the turns of this conversation.</Notice>;
  // Rows of turns to come are there from the start, so that nothing jumps when they come.
  const toCome = value.status === "active" ? value.turns_planned - placed.length : 0;
  const rows = [...placed, ...Array.from({ length: Math.max(0, toCome) }, (_, index) => toBe(placed.length + index + 1))];
  return (
    <>
      <p>
        <a href={`#/conversations/${encodeURIComponent(id)}`}>{value.title}</a>{" "}
        <span className="muted nums">
          {value.turns_answered} of {value.turns_planned} turns answered
        </span>
      </p>
      <Maps latest={latest} rows={rows} caption={`${latest.label}: ${number(latest.choice.blocks)} full blocks of ${blockSize} tokens, as the router saw them when it placed the turn. Below: every turn, on the same scale.`} />
    </>
  );
}

const toBe = (turn: number): Shown => ({ key: `turn ${turn}`, label: `Turn ${turn}`, choice: null });

function ofTurn(conversation: Conversation, turn: Turn, index: number): Placed[] {
  const routing = turn.answered?.routing;
  if (!routing) return [];
  const choice = { blocks: routing.blocks, winner: turn.answered?.worker ?? null, candidates: routing.candidates };
  return [{ key: `${conversation.id}/${index}`, label: `Turn ${index + 1}`, choice }];
}

function OfDecisions({ decisions, blockSize }: { decisions: Decision[]; blockSize: number }) {
  const [latest, ...rows] = decisions.slice(0, 8).map((decision): Placed => ({
    key: String(decision.number),
    label: `#${number(decision.number)}`,
    choice: decision,
  }));
  if (!latest) return <Notice>Nothing has been routed yet.</Notice>;
  return <Maps latest={latest} rows={rows} caption={`Decision ${latest.label}: ${number(latest.choice.blocks)} full blocks of ${blockSize} tokens. Earlier decisions, of other conversations, below on the same scale.`} />;
}
