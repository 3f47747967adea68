/** The block map of one conversation, or of the latest decisions as they come. */
import { useState } from "react";
import { api } from "../../api/client";
import type { Conversation, Decision, State, Turn } from "../../api/types";
import { blockMap, blocksPerCell, type Choice, followed } from "../../lib/blockmap";
import { number } from "../../lib/format";
import { usePoll } from "../../lib/poll";
import { workerNumber } from "../../lib/timeline";
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
            <select value={shown ?? "newest"} onChange={(event) => show(event.target.value === "newest" ? null : event.target.value)}>
              <option value="newest">an active conversation, to its end</option>
              <option value="decisions">the latest decision, whoever asked</option>
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
      {shown !== "decisions" && id === null && <Notice>No conversation has an answered turn yet{state.load?.phase === "running" ? "." : ": press Start."}</Notice>}
    </section>
  );
}

type Shown = { key: string; label: string; choice: Choice };

type MapsProps = { latest: Shown; earlier: Shown[]; caption: string; /** Maps that are to come. Their room is kept, so that nothing below jumps. */ toCome?: number };

function Maps({ latest, earlier, caption, toCome = 0 }: MapsProps) {
  const scale = Math.max(latest.choice.blocks, ...earlier.map((one) => one.choice.blocks));
  const perCell = blocksPerCell(scale);
  return (
    <>
      <p className="muted small caption">{caption}</p>
      <BlockGrid key={latest.key} map={blockMap(latest.choice, perCell)} scale={scale} />
      <BlockLegend perCell={perCell} />
      {earlier.length + toCome > 0 && (
        <ol className="earlier" style={{ minHeight: `calc(${earlier.length + toCome} * max(3rem, ${0.6 * latest.choice.candidates.length}rem))` }}>
          {earlier.map((one) => (
            <li key={one.key}>
              <span className="small nums">
                <b>{one.label}</b> <span className="muted">{number(one.choice.blocks)} blocks</span>
              </span>
              <BlockGrid map={blockMap(one.choice, perCell)} scale={scale} small />
              <span className="small">{one.choice.winner !== null && <WorkerName worker={one.choice.winner} />}</span>
            </li>
          ))}
          {toCome > 0 && <li className="to-come muted small">{toCome === 1 ? "One more turn is" : `${toCome} more turns are`} planned; each takes the large map, and those before it line up here.</li>}
        </ol>
      )}
    </>
  );
}

function OfConversation({ id, blockSize }: { id: string; blockSize: number }) {
  const { value, error } = usePoll((signal) => api.conversation(id, signal), id, 2000);
  if (!value) return error ? <Notice error>{error}</Notice> : <Notice>Asking the server…</Notice>;
  const turns = value.turns.flatMap((turn, index) => ofTurn(value, turn, index));
  const [latest, ...earlier] = turns.reverse();
  if (!latest) return <Notice>This server does not tell how it routed the turns of this conversation.</Notice>;
  return (
    <>
      <p>
        <a href={`#/conversations/${encodeURIComponent(id)}`}>{value.title}</a>{" "}
        <span className="muted nums">
          {value.turns_answered} of {value.turns_planned} turns answered
        </span>
      </p>
      <Maps latest={latest} earlier={earlier} caption={`${latest.label}: ${number(latest.choice.blocks)} full blocks of ${blockSize} tokens, as the router saw them when it placed the turn. Earlier turns below, on the same scale.`} toCome={value.status === "active" ? value.turns_planned - turns.length : 0} />
    </>
  );
}

function ofTurn(conversation: Conversation, turn: Turn, index: number): Shown[] {
  const routing = turn.answered?.routing;
  if (!routing) return [];
  const choice = { blocks: routing.blocks, winner: workerNumber(turn.answered?.worker), candidates: routing.candidates };
  return [{ key: `${conversation.id}/${index}`, label: `Turn ${index + 1}`, choice }];
}

function OfDecisions({ decisions, blockSize }: { decisions: Decision[]; blockSize: number }) {
  const [latest, ...earlier] = decisions.slice(0, 8).map((decision): Shown => ({
    key: String(decision.number),
    label: `#${number(decision.number)}`,
    choice: decision,
  }));
  if (!latest) return <Notice>Nothing has been routed yet.</Notice>;
  return <Maps latest={latest} earlier={earlier} caption={`Decision ${latest.label}: ${number(latest.choice.blocks)} full blocks of ${blockSize} tokens. Earlier decisions, of other conversations, below on the same scale.`} />;
}
