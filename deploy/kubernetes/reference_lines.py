"""Prints a Grafana dashboard with its reference lines filled from a sweep's baseline.

    python3 reference_lines.py DASHBOARD BASELINE [LEVEL]

The same as `homing dashboards --baseline`, for machines that have a cluster's tools and not the
program. Lines are the p95 of round robin, of KV routing, and of KV routing with a draft model at that
number of conversations, or else at as many as the load generator has. One that the baseline does not
have stays as it was.
"""

import datetime
import json
import sys

# The level of the load, for Prometheus.
LEVEL = "scalar(max(loadgen_target_conversations))"
LINES = {
    "baseline": ("baseline", ["round-robin"]),
    "single": ("one optimisation", ["kv", "kv-blocks"]),
    "double": ("two optimisations", ["kv+draft", "kv+eagle3"]),
}
FIGURES = ["ttft", "tpot", "itl"]


def fill(dashboard, baseline, wanted):
    levels = chosen(baseline, wanted)
    values, modes = {}, []
    for line, (words, candidates) in LINES.items():
        mode = next((mode for mode in candidates if any(mode in cells for cells in levels.values())), None)
        if mode is None and line == "baseline":
            raise ValueError(f"no mode {candidates[0]}")
        if mode is None:
            continue
        modes.append(f"{words}: {mode}")
        for figure in FIGURES:
            p95 = {
                level: round(cells[mode][f"{figure}_ms"]["p95"] / 1000, 6)
                for level, cells in levels.items()
                if mode in cells and cells[mode][f"{figure}_ms"]["p95"] is not None
            }
            terms = [f"{height} * ({LEVEL} == bool {level})" for level, height in p95.items()]
            if wanted is not None:
                terms = [str(height) for height in p95.values()]
            if terms:
                values[f"{line}_{figure}_p95"] = " + ".join(terms)
    for variable in dashboard["templating"]["list"]:
        if variable["name"] in values:
            variable["query"] = values[variable["name"]]
    date = datetime.datetime.fromtimestamp(baseline["created_ms"] / 1000, datetime.timezone.utc)
    place = f"at {wanted} conversations" if wanted else "at the level of the load, where the file has it"
    dashboard["description"] += (
        f" Reference lines ({', '.join(modes)}) {place}, from run {baseline['run_id']} of {date:%Y-%m-%d},"
        f" {'simulated' if baseline['simulated'] else 'measured'}."
    )
    return dashboard


def chosen(baseline, wanted):
    """The cells by mode, of all levels or of the one that is wanted."""
    known = {
        entry["concurrency"]: {cell["mode"]: cell for cell in entry["cells"]}
        for entry in baseline["levels"]
    }
    if wanted is None:
        return known
    if wanted not in known:
        raise ValueError(f"no level {wanted}; available: {', '.join(map(str, known))}")
    return {wanted: known[wanted]}


if __name__ == "__main__":
    dashboard, baseline, *level = sys.argv[1:]
    try:
        with open(dashboard, encoding="utf-8") as one, open(baseline, encoding="utf-8") as other:
            filled = fill(json.load(one), json.load(other), int(level[0]) if level else None)
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"{baseline}: {error}")
    print(json.dumps(filled, indent=2, ensure_ascii=False))
