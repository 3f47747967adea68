import { describe, expect, it } from "vitest";
import { workerName } from "../lib/workers";
import { type Environment, FIRST_DELAY_MS, LONGEST_DELAY_MS, openFeed, SILENCE_MS, type SocketEvents } from "./feed";

/** Sockets that a test drives, and a clock that it turns. */
function bench() {
  const sockets: Array<SocketEvents & { closed: boolean }> = [];
  let now = 0;
  let timers: Array<{ at: number; action: () => void }> = [];
  const environment: Environment = {
    open: (events) => {
      const socket = { ...events, closed: false };
      sockets.push(socket);
      return { close: () => (socket.closed = true) };
    },
    now: () => now,
    after: (ms, action) => {
      const timer = { at: now + ms, action };
      timers.push(timer);
      return () => (timers = timers.filter((other) => other !== timer));
    },
    random: () => 0.5,
  };
  const advance = (ms: number) => {
    const end = now + ms;
    for (;;) {
      const due = timers.filter((timer) => timer.at <= end).sort((one, other) => one.at - other.at)[0];
      if (!due) break;
      timers = timers.filter((other) => other !== due);
      now = due.at;
      due.action();
    }
    now = end;
  };
  const feed = openFeed(environment);
  const socket = (index: number) => {
    const found = sockets[index];
    if (!found) throw new Error(`no socket ${index}`);
    return found;
  };
  return { sockets, socket, advance, feed };
}

const state = JSON.stringify({ version: "1", workers: [{ id: "7587899007311003142", number: 5 }] });

describe("the feed", () => {
  it("is open once a state has come, and keeps it when the socket goes", () => {
    const { socket, feed, advance } = bench();
    expect(feed.get().connection).toBe("connecting");
    socket(0).onOpen();
    expect(feed.get().connection).toBe("connecting");
    advance(100);
    socket(0).onMessage(state);
    expect(feed.get()).toMatchObject({ connection: "open", receivedMs: 100, state: { version: "1" } });
    expect(workerName("7587899007311003142")).toBe("worker 5");
    socket(0).onClose();
    expect(feed.get()).toMatchObject({ connection: "down", receivedMs: 100, state: { version: "1" } });
  });

  it("reconnects ever more slowly, and quickly again after a success", () => {
    const { socket, sockets, advance } = bench();
    let delay = FIRST_DELAY_MS;
    for (let attempt = 0; attempt < 8; attempt += 1) {
      socket(attempt).onClose();
      advance(delay - 1);
      expect(sockets).toHaveLength(attempt + 1);
      advance(1);
      expect(sockets).toHaveLength(attempt + 2);
      delay = Math.min(LONGEST_DELAY_MS, 2 * delay);
    }
    socket(8).onMessage(state);
    socket(8).onClose();
    advance(FIRST_DELAY_MS);
    expect(sockets).toHaveLength(10);
  });

  it("takes silence for a lost connection", () => {
    const { socket, feed, advance } = bench();
    socket(0).onMessage(state);
    advance(SILENCE_MS - 1);
    expect(feed.get().connection).toBe("open");
    advance(1);
    expect(feed.get().connection).toBe("down");
    expect(socket(0).closed).toBe(true);
    socket(0).onMessage(state);
    expect(feed.get().connection).toBe("down");
  });

  it("stops for good when closed", () => {
    const { sockets, feed, advance } = bench();
    feed.close();
    advance(60_000);
    expect(sockets).toHaveLength(1);
    expect(sockets[0]?.closed).toBe(true);
  });
});
