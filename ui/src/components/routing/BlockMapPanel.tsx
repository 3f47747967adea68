/** The block map of one conversation, or of the latest decisions as they come. */
import { useState } from "react";
import { api } from "../../api/client";
import type { Conversation, Decision, State, Turn } from "../../api/types";
import { type BlockMap, blockMap, followed } from "../../lib/blockmap";
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

type Shown = { key: string; label: string; worker: number | null; map: BlockMap };

function Maps({ latest, earlier, caption }: { latest: Shown; earlier: Shown[]; caption: string }) {
  const scale = Math.max(latest.map.blocks, ...earlier.map((one) => one.map.blocks));
  return (
    <>
      <p className="muted small caption">{caption}</p>
      <BlockGrid key={latest.key} map={latest.map} scale={scale} />
      <BlockLegend perCell={latest.map.perCell} />
      {earlier.length > 0 && (
        <ol className="earlier">
          {earlier.map((one) => (
            <li key={one.key}>
              <span className="small nums">
                <b>{one.label}</b> <span className="muted">{number(one.map.blocks)} blocks</span>
              </span>
              <BlockGrid map={one.map} scale={scale} small />
              <span className="small">{one.worker !== null && <WorkerName worker={one.worker} />}</span>
            </li>
          ))}
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
      <Maps latest={latest} earlier={earlier} caption={`${latest.label}: ${number(latest.map.blocks)} full blocks of ${blockSize} tokens, as the router saw them when it placed the turn. Earlier turns below, on the same scale.`} />
    </>
  );
}

function ofTurn(conversation: Conversation, turn: Turn, index: number): Shown[] {
  const routing = turn.answered?.routing;
  if (!routing) return [];
  const worker = workerNumber(turn.answered?.worker);
  const map = blockMap({ blocks: routing.blocks, winner: worker, candidates: routing.candidates });
  return [{ key: `${conversation.id}/${index}`, label: `Turn ${index + 1}`, worker, map }];
}

function OfDecisions({ decisions, blockSize }: { decisions: Decision[]; blockSize: number }) {
  const [latest, ...earlier] = decisions.slice(0, 8).map((decision): Shown => ({
    key: String(decision.number),
    label: `#${number(decision.number)}`,
    worker: decision.winner,
    map: blockMap(decision),
  }));
  if (!latest) return <Notice>Nothing has been routed yet.</Notice>;
  return <Maps latest={latest} earlier={earlier} caption={`Decision ${latest.label}: ${number(latest.map.blocks)} full blocks of ${blockSize} tokens. Earlier decisions, of other conversations, below on the same scale.`} />;
}
