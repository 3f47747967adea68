"""Prints a Grafana dashboard with its reference lines filled from a sweep's baseline.

    python3 reference_lines.py DASHBOARD BASELINE LEVEL

The same heights as `homing dashboards --baseline`, for machines that have a cluster's tools and not
the program. Lines are round robin's and KV routing's p95 at that number of conversations; one that
the baseline does not have stays as it was.
"""

import datetime
import json
import sys

MODES = {"baseline": ["round-robin"], "single": ["kv", "kv-blocks"]}
FIGURES = ["ttft", "tpot", "itl"]


def fill(dashboard, baseline, level):
    cells = cells_at(baseline, level)
    heights, modes = {}, {}
    for line, candidates in MODES.items():
        mode = next((mode for mode in candidates if mode in cells), None)
        if mode is None:
            raise ValueError(f"no mode {candidates[0]} at {level} conversations")
        modes[line] = mode
        for figure in FIGURES:
            p95 = cells[mode][f"{figure}_ms"]["p95"]
            if p95 is not None:
                heights[f"{line}_{figure}_p95"] = round(p95 / 1000, 6)
    for variable in dashboard["templating"]["list"]:
        if variable["name"] in heights:
            variable["query"] = str(heights[variable["name"]])
    date = datetime.datetime.fromtimestamp(baseline["created_ms"] / 1000, datetime.timezone.utc)
    dashboard["description"] += (
        f" Reference lines: baseline is {modes['baseline']}, one optimisation is {modes['single']},"
        f" at {level} conversations, from run {baseline['run_id']} of {date:%Y-%m-%d},"
        f" {'simulated' if baseline['simulated'] else 'measured'}."
    )
    return dashboard


def cells_at(baseline, level):
    known = {entry["concurrency"]: entry["cells"] for entry in baseline["levels"]}
    if level not in known:
        raise ValueError(f"no level {level}; available: {', '.join(map(str, known))}")
    return {cell["mode"]: cell for cell in known[level]}


if __name__ == "__main__":
    dashboard, baseline, level = sys.argv[1:]
    try:
        with open(dashboard, encoding="utf-8") as one, open(baseline, encoding="utf-8") as other:
            filled = fill(json.load(one), json.load(other), int(level))
    except (OSError, KeyError, ValueError) as error:
        sys.exit(f"{baseline}: {error}")
    print(json.dumps(filled, indent=2, ensure_ascii=False))
