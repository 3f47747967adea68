/** Looks at the latest decisions every second: what to send off, and each worker's rate. */
import { useEffect, useState } from "preact/compat";
import { api } from "../../api/client";
import { emptyLog, type Flight, type Log, LOOK_MS, look, MOST_FLIGHTS, rates } from "../../lib/flow";
import { usePoll } from "../../lib/poll";

export type Flow = { flights: Flight[]; newest: number | null; rates: Map<string, number> | null };

export function useFlow(): Flow {
  const { value } = usePoll((signal) => api.decisions(MOST_FLIGHTS, signal), "flow", LOOK_MS);
  const [flow, setFlow] = useState<Flow & { log: Log }>(() => ({ flights: [], newest: null, rates: null, log: emptyLog(Date.now()) }));
  useEffect(() => {
    if (!value) return;
    setFlow((before) => {
      const now = Date.now();
      const { log, flights } = look(before.log, value.decisions, now);
      return { log, flights, newest: log.newest, rates: rates(log, now) };
    });
  }, [value]);
  return flow;
}
