/** One conversation, turn by turn: what was said, what it took and why it went where it went. */
import { api } from "../api/client";
import type { Conversation } from "../api/types";
import { TtftStrip } from "../components/conversation/TtftStrip";
import { TurnCard } from "../components/conversation/TurnCard";
import { CopyButton } from "../components/CopyButton";
import { Notice } from "../components/Notice";
import { StatusBadge } from "../components/StatusBadge";
import { clock, duration } from "../lib/format";
import { usePoll } from "../lib/poll";
import { commonScale } from "../lib/timeline";
import { useState } from "preact/compat";
import "./ConversationDetail.css";

export function ConversationDetail({ id }: { id: string }) {
  const [over, setOver] = useState<string | null>(null);
  const { value, error } = usePoll((signal) => api.conversation(id, signal), id, over === id ? null : 3000);
  if (value && value.status !== "active" && over !== id) setOver(id);
  return (
    <>
      <a className="back" href="#/conversations">
        ← All conversations
      </a>
      {error && <Notice error>{error}</Notice>}
      {value ? <Shown key={value.id} conversation={value} /> : !error && <Notice>Loading…</Notice>}
    </>
  );
}

function Shown({ conversation }: { conversation: Conversation }) {
  const scaleMs = commonScale(conversation.turns);
  const begun = conversation.turns.length;
  return (
    <>
      <section className="panel">
        <div className="page-head">
          <h2>{conversation.title}</h2>
          <StatusBadge status={conversation.status} />
        </div>
        <dl className="facts">
          <div>
            <dt>Turns</dt>
            <dd>
              {conversation.turns_answered} of {conversation.turns_planned}
            </dd>
          </div>
          <div>
            <dt>Duration</dt>
            <dd>{duration(conversation.duration_s)}</dd>
          </div>
          <div>
            <dt>Started</dt>
            <dd>{clock(conversation.started_ms)}</dd>
          </div>
          <div className="id">
            <dt>Id</dt>
            <dd>
              <span className="mono">{conversation.id}</span> <CopyButton text={conversation.id} label="Copy the conversation's id" />
            </dd>
          </div>
        </dl>
        <TtftStrip turns={conversation.turns} planned={conversation.turns_planned} />
      </section>
      {conversation.turns.map((turn, index) => (
        <TurnCard
          // Turns are only ever added at the end.
          // oxlint-disable-next-line react/no-array-index-key
          key={index}
          number={index + 1}
          turn={turn}
          scaleMs={scaleMs}
          pending={conversation.status === "active" && index === begun - 1}
        />
      ))}
      {begun === 0 && <Notice>The first question has not been asked yet.</Notice>}
    </>
  );
}
