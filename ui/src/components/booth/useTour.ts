/** Turns the pages of booth mode, by time, by key or along the story. */
import { useEffect, useRef, useState } from "preact/compat";
import { api } from "../../api/client";
import { useFeed } from "../../api/live";
import { advance, begin, canWalk, caption, type Effect, stop, type Walk } from "../../lib/attract";
import { type Booth, keyAction, neighbour } from "../../lib/booth";
import { reportCause } from "../../lib/notices";
import { usePoll } from "../../lib/poll";
import { type Route, TABS } from "../../lib/route";

/** Its own click decides; a key or a touch elsewhere ends the walk. */
export const TOUR_BUTTON = "data-tour";

function perform(effects: readonly Effect[]): void {
  for (const effect of effects) {
    if (effect.kind === "open") window.location.hash = effect.href;
    if (effect.kind === "route") api.router({ mode: effect.mode }).catch(reportCause);
    if (effect.kind === "start") api.load("start").catch(reportCause);
  }
}

/** Pages that show something: dashboards only with a Prometheus to ask. */
function useTabs(): typeof TABS {
  const { value } = usePoll((signal) => api.dashboards(signal), "booth", null);
  return TABS.filter(({ page }) => page !== "grafana" || (value !== null && value.prometheus !== null));
}

function turn(tabs: typeof TABS, page: Route["page"], step: 1 | -1): void {
  const current = tabs.find((tab) => tab.page === (page === "conversation" ? "conversations" : page));
  const next = neighbour<(typeof TABS)[number] | undefined>(tabs, current, step);
  if (next) window.location.hash = next.href;
}

export type Tour = { /** What the story says now. */ caption: string | null; walking: boolean; moving: boolean; /** Begins or ends the walk, or the rotation. */ toggle(): void };

export function useTour(booth: Booth, page: Route["page"]): Tour {
  const { connection, state } = useFeed();
  const [paused, setPaused] = useState(false);
  const [wanted, setWanted] = useState(booth.attract);
  const [walk, setWalk] = useState<Walk | null>(null);
  const tabs = useTabs();
  const walks = booth.attract && state !== null && canWalk(state);
  const halt = () => {
    if (walk && state) perform(stop(walk, state));
    setWalk(null);
    setWanted(false);
    setPaused(true);
  };
  const latest = useRef({ halt, tabs, page, walk, wanted, connection });
  latest.current = { halt, tabs, page, walk, wanted, connection };

  // The server speaks every second.
  useEffect(() => {
    const { walk, wanted, connection } = latest.current;
    if (!state || connection !== "open" || !wanted || !canWalk(state)) return;
    const step = walk ? advance(walk, state, Date.now()) : begin(state, Date.now());
    setWalk(step.walk);
    if (!step.walk) setWanted(false);
    perform(step.effects);
  }, [state]);

  const moving = walk === null && !paused && booth.seconds > 0;
  useEffect(() => {
    if (!moving) return;
    const timer = setTimeout(() => turn(latest.current.tabs, page, 1), 1000 * booth.seconds);
    return () => clearTimeout(timer);
  }, [moving, page, booth.seconds]);

  useEffect(() => {
    const ours = (event: Event) => event.target instanceof Element && event.target.closest(`[${TOUR_BUTTON}]`) !== null;
    const onKey = (event: KeyboardEvent) => {
      const { walk, halt, tabs, page } = latest.current;
      if (walk) return ours(event) ? undefined : halt();
      const action = keyAction(event);
      if (!action) return;
      event.preventDefault();
      if (action === "pause") setPaused((before) => !before);
      else turn(tabs, page, action === "next" ? 1 : -1);
    };
    const onTouch = (event: PointerEvent) => {
      if (latest.current.walk && !ours(event)) latest.current.halt();
    };
    const onLeave = () => {
      if (latest.current.walk) latest.current.halt();
    };
    window.addEventListener("keydown", onKey);
    window.addEventListener("pointerdown", onTouch);
    window.addEventListener("pagehide", onLeave);
    return () => {
      window.removeEventListener("keydown", onKey);
      window.removeEventListener("pointerdown", onTouch);
      window.removeEventListener("pagehide", onLeave);
    };
  }, []);

  const toggle = () => {
    if (walk) halt();
    else if (walks) setWanted(true);
    else setPaused(!paused);
  };
  return {
    // Nothing is said of a mode that the server does not show yet.
    caption: walk && state && walk.askedMs === null ? caption(walk, state) : null,
    walking: walk !== null, moving, toggle,
  };
}
