/** The feed in Preact: one provider at the root, hooks for what a component shows. */
import { createContext, type ReactNode, useContext, useEffect, useState, useSyncExternalStore } from "preact/compat";
import { socketAddress } from "../lib/address";
import { controlToken } from "./client";
import { type Environment, type Feed, type FeedStore, openFeed } from "./feed";
import type { State } from "./types";

const LiveContext = createContext<FeedStore | null>(null);

/** A browser sends no header with a WebSocket, so a token travels as a subprotocol. */
function protocols(): string[] {
  const token = controlToken.get();
  return token ? ["homing", `token.${encodeURIComponent(token)}`] : ["homing"];
}

const browser: Environment = {
  open: (events) => {
    const socket = new WebSocket(socketAddress("api/stream", window.location.href), protocols());
    socket.onopen = () => events.onOpen();
    socket.onmessage = (message) => events.onMessage(String(message.data));
    socket.onclose = () => events.onClose();
    return socket;
  },
  now: () => Date.now(),
  after: (ms, action) => {
    const timer = setTimeout(action, ms);
    return () => clearTimeout(timer);
  },
  random: () => Math.random(),
};

/** Tests hand in a store of their own. */
export function LiveProvider({ store, children }: { store?: FeedStore; children: ReactNode }) {
  const [live, setLive] = useState<FeedStore | null>(store ?? null);
  useEffect(() => {
    if (store) return;
    const opened = openFeed(browser);
    setLive(opened);
    return () => opened.close();
  }, [store]);
  if (!live) return null;
  return <LiveContext value={live}>{children}</LiveContext>;
}

export function useFeed(): Feed {
  const store = useContext(LiveContext);
  if (!store) throw new Error("useFeed needs a LiveProvider");
  return useSyncExternalStore(store.subscribe, store.get);
}

/** The newest state; `null` until the first has come. */
export function useLive(): State | null {
  return useFeed().state;
}
