/** All conversations of the load generator: filter, order and a way into each. */
import { api, type ConversationSort } from "../api/client";
import { useLive } from "../api/live";
import type { ConversationStatus, ConversationSummary } from "../api/types";
import { Notice } from "../components/Notice";
import { Scroll } from "../components/Scroll";
import { StatusBadge } from "../components/StatusBadge";
import { whenLoadBegins } from "../lib/controls";
import { clock, duration, number } from "../lib/format";
import { usePoll } from "../lib/poll";
import { useQuery } from "../lib/route";
import { useState } from "preact/compat";
import "./Conversations.css";

const LIMIT = 100;
const STATUSES: ReadonlyArray<ConversationStatus> = ["active", "completed", "stopped", "error"];
const SORTS: Record<ConversationSort, string> = { newest: "Newest first", oldest: "Oldest first", longest: "Longest first", turns: "Most turns first" };
/** The column that an order sorts by. */
const SORTED: Record<ConversationSort, [string, "ascending" | "descending"]> = {
  newest: ["Started", "descending"],
  oldest: ["Started", "ascending"],
  longest: ["Duration", "descending"],
  turns: ["Turns", "descending"],
};

const isStatus = (value: string | null): value is ConversationStatus => STATUSES.some((status) => status === value);
const isSort = (value: string | null): value is ConversationSort => value !== null && value in SORTS;

export function Conversations() {
  const [query, change] = useQuery();
  const [asked, order] = [query.get("status"), query.get("sort")];
  const status = isStatus(asked) ? asked : null;
  const sort = isSort(order) ? order : "newest";
  const { value: fresh, error } = usePoll((signal) => api.conversations({ limit: LIMIT, status, sort }, signal), `${status}/${sort}`, 5000);
  // Another filter shows the old rows until the new ones have come: no flash of nothing.
  const [kept, setKept] = useState(fresh);
  if (fresh && fresh !== kept) setKept(fresh);
  const value = fresh ?? kept;
  return (
    <section className="panel" aria-busy={!fresh}>
      <header className="page-head">
        <h2>Conversations</h2>
        <div className="tools">
          <span className="muted small nums" aria-live="off">
            {value && value.total > 0 && `shown ${number(value.conversations.length)} of ${number(value.total)}`}
          </span>
          <label>
            Status
            <select value={status ?? "all"} onChange={(event) => change({ status: event.currentTarget.value === "all" ? null : event.currentTarget.value })}>
              <option value="all">all</option>
              {STATUSES.map((each) => (
                <option key={each}>{each}</option>
              ))}
            </select>
          </label>
          <label>
            Order
            <select value={sort} onChange={(event) => change({ sort: event.currentTarget.value === "newest" ? null : event.currentTarget.value })}>
              {Object.entries(SORTS).map(([each, label]) => (
                <option key={each} value={each}>
                  {label}
                </option>
              ))}
            </select>
          </label>
        </div>
      </header>
      {error && <Notice error>{error} The list is as it was; asking again every 5 s.</Notice>}
      {value && value.conversations.length > 0 && <ConversationTable conversations={value.conversations} sort={sort} />}
      {value?.conversations.length === 0 && <Nothing status={status} />}
      {!value && !error && <Notice>Loading…</Notice>}
    </section>
  );
}

function Nothing({ status }: { status: ConversationStatus | null }) {
  const load = useLive()?.load;
  if (load === null) return <Notice>Started without a load generator, so there are no conversations.</Notice>;
  if (status) return <Notice>No conversation is “{status}” right now.</Notice>;
  return <Notice>{load?.phase === "running" ? "The first conversations are about to begin." : `No conversation yet${whenLoadBegins(load?.phase)}`}</Notice>;
}

function ConversationTable({ conversations, sort }: { conversations: ConversationSummary[]; sort: ConversationSort }) {
  const [column, direction] = SORTED[sort];
  const head = (label: string, className?: string) => (
    <th scope="col" className={className} aria-sort={label === column ? direction : undefined}>
      {label}
      {label === column && <span aria-hidden="true">{direction === "ascending" ? " ↑" : " ↓"}</span>}
    </th>
  );
  return (
    <Scroll label="Conversations">
      <table className="conversations">
        <thead>
          <tr>
            {head("Status")}
            {head("Topic")}
            {head("Turns", "number")}
            {head("Duration", "number")}
            {head("Started", "number")}
          </tr>
        </thead>
        <tbody>
          {conversations.map((conversation) => (
            <Row key={conversation.id} conversation={conversation} />
          ))}
        </tbody>
      </table>
    </Scroll>
  );
}

/** The link is what the keyboard reaches; a click anywhere in the row follows it. */
function Row({ conversation }: { conversation: ConversationSummary }) {
  const href = `#/conversations/${encodeURIComponent(conversation.id)}`;
  const started = new Date(conversation.started_ms);
  return (
    <tr onClick={() => (window.location.hash = href)}>
      <td>
        <StatusBadge status={conversation.status} />
      </td>
      <td className="topic">
        <a href={href} onClick={(event) => event.stopPropagation()}>
          {conversation.title}
        </a>
      </td>
      <td className="number">
        {conversation.turns_answered} of {conversation.turns_planned}
      </td>
      <td className="number">{duration(conversation.duration_s)}</td>
      <td className="number">
        <time dateTime={started.toISOString()} title={started.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "medium" })}>
          {clock(conversation.started_ms)}
        </time>
      </td>
    </tr>
  );
}
