/** How a conversation stands: colour and word. */
import type { ConversationStatus } from "../api/types";
import "./parts.css";

export function StatusBadge({ status }: { status: ConversationStatus }) {
  return <span className={`badge status ${status}`}>{status}</span>;
}
