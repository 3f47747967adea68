/** The Grafana dashboards for people without Grafana: their own JSON, drawn here. */
import { useLayoutEffect, useMemo } from "preact/compat";
import { api } from "../api/client";
import { useChoices } from "../api/grafana";
import { useLive } from "../api/live";
import type { DashboardList } from "../api/types";
import { Toolbar } from "../components/grafana/Toolbar";
import { NoPrometheus } from "../components/grafana/NoPrometheus";
import { RowSection } from "../components/grafana/RowSection";
import { refreshOf, useWindow } from "../components/grafana/useWindow";
import { Notice } from "../components/Notice";
import { grafanaAddress } from "../lib/address";
import { readDashboard } from "../lib/grafana/read";
import type { Dashboard } from "../lib/grafana/types";
import { durationS, valuesOf } from "../lib/grafana/variables";
import { usePoll } from "../lib/poll";
import { useQuery } from "../lib/route";
import "../components/grafana/grafana.css";

export function GrafanaView({ uid }: { uid: string | null }) {
  const { value: all, error } = usePoll((signal) => api.dashboards(signal), "dashboards", null);
  const wanted = uid ?? all?.dashboards[0]?.uid ?? null;
  if (error) return <section className="panel"><Notice error>{error}</Notice></section>;
  if (!all) return <section className="panel"><Notice>Loading…</Notice></section>;
  if (wanted === null) return <section className="panel"><Notice>This server has no dashboards.</Notice></section>;
  return <Fetched key={wanted} uid={wanted} all={all} />;
}

function Fetched({ uid, all }: { uid: string; all: DashboardList }) {
  const { value, error } = usePoll((signal) => api.dashboard(uid, signal), uid, null);
  const board = useMemo(() => (value === null ? null : readDashboard(value)), [value]);
  // Begins at its top, wherever the one before was left: panels out of sight are not asked for.
  useLayoutEffect(() => void (document.documentElement.scrollTop = 0), [uid]);
  if (error) return <section className="panel"><Notice error>{error} <a href="#/grafana">Open the first dashboard.</a></Notice></section>;
  if (!board) return <section className="panel"><Notice>Loading…</Notice></section>;
  return <Board board={board} all={all} />;
}

/** Rows that are not as the file has them, in the address. */
const toggledRows = (text: string | null): Set<number> => new Set((text ?? "").split(".").filter(Boolean).map(Number));

/** Variables as Grafana has them in its address: `var-worker=2`. */
const chosenValues = (query: URLSearchParams): Map<string, string> =>
  new Map([...query].flatMap(([name, value]) => (name.startsWith("var-") ? [[name.slice(4), value] as const] : [])));

function Board({ board, all }: { board: Dashboard; all: DashboardList }) {
  const state = useLive();
  const simulated = state?.simulated ?? false;
  const grafana = state?.grafana_url ?? null;
  const [query, change] = useQuery();
  const rangeS = durationS(query.get("range") ?? "") ?? board.rangeS;
  const refreshS = refreshOf(board.refreshS);
  const window = useWindow(rangeS, refreshS);
  const toggled = toggledRows(query.get("rows"));
  const chosen = query.toString();
  const values = useMemo(() => valuesOf(board, chosenValues(new URLSearchParams(chosen))), [board, chosen]);
  const connected = all.prometheus !== null;
  const choices = useChoices(connected ? board : null, window);
  const source = useMemo(() => (connected && window ? { values, window } : null), [connected, values, window]);
  const toggle = (id: number) => {
    const next = new Set(toggled);
    if (!next.delete(id)) next.add(id);
    change({ rows: next.size > 0 ? [...next].join(".") : null });
  };
  return (
    <div className="grafana-view">
      <section className="panel" aria-labelledby="grafana-title">
        <div className="page-head">
          <h2 id="grafana-title">{board.title}</h2>
          {simulated && <span className="badge simulated">simulated</span>}
          {grafana !== null && <a href={grafanaAddress(grafana, board.uid, `${rangeS}s`)} target="_blank" rel="noreferrer">Open in Grafana ↗</a>}
          <Toolbar board={board} all={all} rangeS={rangeS} choices={choices} query={query} change={change} />
        </div>
        {board.description && <p className="muted">{board.description}</p>}
        <p className="drawn small">
          <b>Drawn by Homing from the Grafana dashboard’s own JSON; not Grafana.</b>
          {connected && <span className="muted"> Queries are answered by Prometheus at {all.prometheus}, every {refreshS} s for the panels in sight.</span>}
        </p>
        {!connected && <NoPrometheus />}
      </section>
      {(!connected || window) && board.sections.map((section) => (
        <RowSection key={section.id} section={section} open={section.collapsed === toggled.has(section.id)} onToggle={() => toggle(section.id)} source={source} />
      ))}
    </div>
  );
}
