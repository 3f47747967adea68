/** Whether what the page shows is alive. A stale page says so, and since when. */
import { type ReactNode, useEffect, useState } from "preact/compat";
import type { Feed } from "../../api/feed";
import { clock, duration } from "../../lib/format";

/** The time, renewed every second while `ticking`. */
function useNow(ticking: boolean): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    if (!ticking) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [ticking]);
  return now;
}

export function ConnectionState({ connection, receivedMs }: Pick<Feed, "connection" | "receivedMs">) {
  const down = connection === "down";
  const now = useNow(down);
  if (connection === "open") return <Shown tone="good" text="Live" title="Updated every second." />;
  if (!down) return <Shown tone="near" text="Connecting" title="Waiting for the server's first message." />;
  if (receivedMs === null) return <Shown tone="missed" text="No connection" title="The server is unreachable; reconnecting." />;
  return (
    <Shown tone="missed" text={`Stale since ${clock(receivedMs)}`} title="The connection is lost; reconnecting. These are the last values received.">
      <span aria-hidden="true"> ({duration((now - receivedMs) / 1000)})</span>
    </Shown>
  );
}

function Shown({ tone, text, title, children }: { tone: string; text: string; title: string; children?: ReactNode }) {
  return (
    <span className={`connection badge ${tone}`} role="status" title={title}>
      <span className="dot" aria-hidden="true" />
      {text}
      {children}
    </span>
  );
}
