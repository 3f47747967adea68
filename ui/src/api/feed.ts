/**
 * The live feed: one WebSocket, reopened with back-off, and what came over it last.
 *
 * Plain TypeScript with its socket and its clock handed in, so that every rule here is tested
 * without a browser. A socket that is open but silent counts as down: a frozen page that
 * looks alive is worse than one that says so.
 */
import { learnNumbers } from "../lib/workers";
import type { State } from "./types";

export type Connection = "connecting" | "open" | "down";

export type Feed = {
  connection: Connection;
  /** The newest state, kept when the connection goes. */
  state: State | null;
  /** When the newest state came, by this page's clock. */
  receivedMs: number | null;
};

export type Socket = { close(): void };
export type SocketEvents = { onOpen(): void; onMessage(text: string): void; onClose(): void };
export type Environment = {
  open(events: SocketEvents): Socket;
  now(): number;
  after(ms: number, action: () => void): () => void;
  /** Spreads reconnections: 0 to 1. */
  random(): number;
};

export const FIRST_DELAY_MS = 500;
export const LONGEST_DELAY_MS = 10_000;
/** The server speaks every second. */
export const SILENCE_MS = 5_000;

export type FeedStore = { get(): Feed; subscribe(listener: () => void): () => void; close(): void };

export function openFeed(environment: Environment): FeedStore {
  let feed: Feed = { connection: "connecting", state: null, receivedMs: null };
  const listeners = new Set<() => void>();
  let socket: Socket | null = null;
  let attempt = 0;
  let closed = false;
  let cancelRetry = () => {};
  let cancelSilence = () => {};

  const publish = (change: Partial<Feed>) => {
    feed = { ...feed, ...change };
    for (const listener of listeners) listener();
  };
  const lost = () => {
    cancelSilence();
    socket?.close();
    socket = null;
    if (closed) return;
    if (feed.connection !== "down") publish({ connection: "down" });
    const delay = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** attempt) * (0.75 + 0.5 * environment.random());
    attempt += 1;
    cancelRetry = environment.after(delay, connect);
  };
  const watchSilence = () => {
    cancelSilence();
    cancelSilence = environment.after(SILENCE_MS, lost);
  };
  function connect() {
    // What an abandoned socket still says is not heard.
    let current = true;
    const events: SocketEvents = {
      onOpen: () => current && watchSilence(),
      onMessage: (text) => {
        if (!current) return;
        attempt = 0;
        watchSilence();
        const state = JSON.parse(text) as State;
        learnNumbers(state.workers);
        publish({ connection: "open", state, receivedMs: environment.now() });
      },
      onClose: () => {
        if (!current) return;
        current = false;
        lost();
      },
    };
    const opened = environment.open(events);
    socket = {
      close: () => {
        current = false;
        opened.close();
      },
    };
    watchSilence();
  }
  connect();
  return {
    get: () => feed,
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => {
      closed = true;
      cancelRetry();
      cancelSilence();
      socket?.close();
      listeners.clear();
    },
  };
}
