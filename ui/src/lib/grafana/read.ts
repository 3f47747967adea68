/**
 * A dashboard read from its JSON.
 *
 * The file is Grafana's and may say more than is drawn here. What is not understood is listed
 * under `unknown`; a panel of another type keeps its place and says so.
 */
import { readFields } from "./fields";
import { finite, type Json, list, object, oneOf, text } from "./json";
import { CALCS, type Dashboard, type GridPos, type Panel, type Section, type Target, type Variable } from "./types";
import { durationS, unknownVariables } from "./variables";

type Tell = (what: string) => void;

const USUAL_RANGE_S = 1800;

export function readDashboard(json: unknown): Dashboard {
  const board = object(json);
  const unknown: string[] = [];
  const tell: Tell = (what) => unknown.push(what);
  const { from, to } = object(board["time"]);
  const range = /^now-(\w+)$/.exec(text(from) ?? "")?.[1];
  if (range === undefined || to !== "now") tell(`time ${JSON.stringify(board["time"])}`);
  const read: Dashboard = {
    uid: text(board["uid"]) ?? "",
    title: text(board["title"]) ?? "",
    description: text(board["description"]),
    rangeS: durationS(range ?? "") ?? USUAL_RANGE_S,
    refreshS: durationS(text(board["refresh"]) ?? ""),
    variables: list(object(board["templating"])["list"]).flatMap((variable) => readVariable(object(variable), tell)),
    sections: readSections(list(board["panels"]).map(object), tell),
    unknown,
  };
  const queries = read.sections.flatMap((section) => section.panels.flatMap((panel) => (panel.type === "other" ? [] : panel.targets)));
  for (const query of queries) for (const name of unknownVariables(query.expr, read)) tell(`variable ${name}`);
  return read;
}

const byPlace = (one: Panel, other: Panel) => one.grid.y - other.grid.y || one.grid.x - other.grid.x;

/** A row owns what it carries, or else all panels up to the next row. */
function readSections(panels: readonly Json[], tell: Tell): Section[] {
  const sections: Array<Section & { panels: Panel[] }> = [{ id: 0, title: null, collapsed: false, panels: [] }];
  for (const panel of panels) {
    if (panel["type"] === "row") {
      const carried = list(panel["panels"]).map((each) => readPanel(object(each), tell));
      sections.push({ id: finite(panel["id"]) ?? 0, title: text(panel["title"]) ?? "", collapsed: panel["collapsed"] === true, panels: carried });
    } else sections.at(-1)?.panels.push(readPanel(panel, tell));
  }
  for (const section of sections) section.panels.sort(byPlace);
  return sections.filter((section) => section.title !== null || section.panels.length > 0);
}

function readPanel(panel: Json, tellBoard: Tell): Panel {
  const kind = text(panel["type"]) ?? "";
  const common = { id: finite(panel["id"]) ?? 0, title: text(panel["title"]) ?? "", description: text(panel["description"]), grid: readGrid(panel["gridPos"]) };
  const tell: Tell = (what) => tellBoard(`panel ${common.id}: ${what}`);
  const options = object(panel["options"]);
  const data = () => ({ ...common, ...readFields(panel["fieldConfig"], tell), targets: list(panel["targets"]).map((target) => readTarget(object(target))) });
  if (list(panel["transformations"]).length > 0) tell("transformations");
  switch (kind) {
    case "stat":
      return { ...data(), type: kind, ...readStat(options, tell) };
    case "timeseries": {
      const { displayMode, placement, showLegend, calcs } = object(options["legend"]);
      if (displayMode !== "list" || placement !== "bottom" || list(calcs).length > 0) tell(`legend ${JSON.stringify(options["legend"])}`);
      return { ...data(), type: kind, legend: showLegend !== false };
    }
    default:
      tell(`type ${JSON.stringify(kind)}`);
      return { ...common, type: "other", kind };
  }
}

function readStat(options: Json, tell: Tell) {
  const reduce = object(options["reduceOptions"]);
  const [wanted] = list(reduce["calcs"]);
  const calc = oneOf(wanted, CALCS);
  if (calc === null) tell(`calculation ${JSON.stringify(wanted)}`);
  if (reduce["values"] === true) tell("all values");
  const graph = oneOf(options["graphMode"], ["area", "none"]);
  if (graph === null) tell(`graph mode ${JSON.stringify(options["graphMode"])}`);
  const colour = oneOf(options["colorMode"], ["value", "none"]);
  if (colour === null) tell(`colour mode ${JSON.stringify(options["colorMode"])}`);
  return { calc: calc ?? ("lastNotNull" as const), sparkline: graph === "area", coloured: colour !== "none" };
}

function readGrid(value: unknown): GridPos {
  const { x, y, w, h } = object(value);
  return { x: finite(x) ?? 0, y: finite(y) ?? 0, w: finite(w) ?? 24, h: finite(h) ?? 8 };
}

const readTarget = (target: Json): Target => ({
  refId: text(target["refId"]) ?? "",
  expr: text(target["expr"]) ?? "",
  legendFormat: text(target["legendFormat"]),
  instant: target["instant"] === true && target["range"] !== true,
});

const LABEL_VALUES = /^label_values\((.+),\s*(\w+)\)$/;

function readVariable(variable: Json, tell: Tell): Variable[] {
  const name = text(variable["name"]) ?? "";
  const query = variable["query"];
  switch (variable["type"]) {
    case "constant":
      return [{ kind: "constant", name, value: String(query ?? "") }];
    case "datasource":
      return [{ kind: "datasource", name }];
    case "query": {
      const [, selector, label] = LABEL_VALUES.exec(text(query) ?? text(object(query)["query"]) ?? "") ?? [];
      if (selector !== undefined && label !== undefined) {
        return [{ kind: "labels", name, label, selector, of: text(variable["label"]) ?? name, allValue: text(variable["allValue"]) ?? ".*" }];
      }
    }
  }
  tell(`variable ${name} of type ${JSON.stringify(variable["type"])}`);
  return [];
}
