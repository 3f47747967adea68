/** Which dashboard, over which range, and of what. */
import type { DashboardList } from "../../api/types";
import type { Dashboard } from "../../lib/grafana/types";
import { durationS } from "../../lib/grafana/variables";

const RANGES: Record<string, string> = { "5m": "Last 5 minutes", "15m": "Last 15 minutes", "30m": "Last 30 minutes", "1h": "Last hour", "3h": "Last 3 hours", "6h": "Last 6 hours" };

type Props = {
  board: Dashboard;
  all: DashboardList;
  rangeS: number;
  /** Values of each variable that has a choice. */
  choices: ReadonlyMap<string, string[]>;
  query: URLSearchParams;
  change: (values: Record<string, string | null>) => void;
};

/** Another dashboard over the same time; what was chosen in this one means nothing there. */
function go(uid: string, range: string | null): void {
  window.location.hash = `#/grafana/${encodeURIComponent(uid)}${range ? `?range=${encodeURIComponent(range)}` : ""}`;
}

export function Toolbar({ board, all, rangeS, choices, query, change }: Props) {
  const range = Object.keys(RANGES).find((each) => durationS(each) === rangeS);
  const usual = (text: string) => durationS(text) === board.rangeS;
  return (
    <div className="tools">
      {board.variables.map((variable) => {
        if (variable.kind !== "labels") return null;
        const value = query.get(`var-${variable.name}`);
        const found = choices.get(variable.name) ?? [];
        const offered = value === null || found.includes(value) ? found : [value, ...found];
        return (
          <label key={variable.name}>
            {variable.of}
            <select value={value ?? ""} onChange={(event) => change({ [`var-${variable.name}`]: event.currentTarget.value || null })}>
              <option value="">All</option>
              {offered.map((each) => <option key={each}>{each}</option>)}
            </select>
          </label>
        );
      })}
      <label>
        Dashboard
        <select value={board.uid} onChange={(event) => go(event.currentTarget.value, query.get("range"))}>
          {all.dashboards.map(({ uid, title }) => <option key={uid} value={uid}>{title}</option>)}
        </select>
      </label>
      <label>
        Range
        <select value={range ?? ""} onChange={(event) => change({ range: usual(event.currentTarget.value) ? null : event.currentTarget.value })}>
          {range === undefined && <option value="">{`Last ${rangeS} s`}</option>}
          {Object.entries(RANGES).map(([each, label]) => <option key={each} value={each}>{label}</option>)}
        </select>
      </label>
    </div>
  );
}
