/** Dashboards and the answers to their queries, as hooks. Queries of all panels share a few places. */
import { useEffect, useRef, useState } from "preact/compat";
import { type Drawn, drawnSeries, gridTimes, readAnswer, type Row } from "../lib/grafana/answers";
import type { Dashboard, DataPanel, Target } from "../lib/grafana/types";
import { choicesQuery, interpolate, type Values, valuesOf, type Window } from "../lib/grafana/variables";
import { api } from "./client";
import { places } from "../lib/places";

/** Under way at once; a browser opens six connections to a server, and pages need some. */
const enter = places(4);

async function ask(target: Target, values: Values, window: Window, signal: AbortSignal): Promise<Row[]> {
  const leave = await enter();
  try {
    signal.throwIfAborted();
    const query = interpolate(target.expr, values, window);
    return readAnswer(target.instant ? await api.query(query, window.end, signal) : await api.queryRange(query, window, signal));
  } finally {
    leave();
  }
}

export type PanelData = { times: number[]; series: Drawn[]; window: Window };
export type Shown = { data: PanelData | null; error: string | null };

/**
 * A panel's series, asked for again with each window while the panel is in sight. What is shown
 * stays until the next is there, an error keeps it; a slow answer is waited for, not asked for twice.
 */
export function usePanelData(panel: DataPanel, values: Values, window: Window | null, inSight: boolean): Shown {
  const key = JSON.stringify([panel, [...values], window && window.end - window.start]);
  const [shown, setShown] = useState<Shown & { key: string }>({ data: null, error: null, key });
  const running = useRef<{ key: string; abort: AbortController; asked: Window | null; busy: boolean } | null>(null);
  useEffect(() => {
    const run = { key, abort: new AbortController(), asked: null, busy: false };
    running.current = run;
    return () => run.abort.abort();
  }, [key]);
  useEffect(() => {
    const run = running.current;
    if (!window || !inSight || !run || run.busy || run.asked === window) return;
    run.busy = true;
    run.asked = window;
    Promise.all(panel.targets.map((target) => ask(target, values, window, run.abort.signal)))
      .then(
        (answers) => setShown({ data: { times: gridTimes(window), series: drawnSeries(panel, answers, window), window }, error: null, key: run.key }),
        (cause: unknown) => {
          if (run.abort.signal.aborted) return;
          const error = cause instanceof Error ? cause.message : String(cause);
          setShown((before) => ({ data: before.key === run.key ? before.data : null, error, key: run.key }));
        },
      )
      .finally(() => (run.busy = false));
    // `panel` and `values` are in the key.
  }, [key, window, inSight]);
  // Another range shows the old lines until the new ones have come.
  return shown;
}

/** What each variable can be, for those whose values are a label's. */
export function useChoices(dashboard: Dashboard | null, window: Window | null): ReadonlyMap<string, string[]> {
  const [choices, setChoices] = useState<ReadonlyMap<string, string[]>>(new Map());
  const asked = useRef<Dashboard | null>(null);
  useEffect(() => {
    if (!dashboard || !window || asked.current === dashboard) return;
    asked.current = dashboard;
    const values = valuesOf(dashboard, new Map());
    for (const variable of dashboard.variables) {
      if (variable.kind !== "labels") continue;
      api.query(interpolate(choicesQuery(variable), values, window), window.end).then(
        (answer) => {
          const found = readAnswer(answer).flatMap((row) => row.labels[variable.label] ?? []);
          const sorted = found.sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
          setChoices((before) => new Map(before).set(variable.name, sorted));
        },
        // Without them there is no choice, and all are shown.
        () => undefined,
      );
    }
  }, [dashboard, window]);
  return choices;
}
