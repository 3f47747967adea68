//! The file formats of the published demo's tools, for programs that read them.
//!
//! The formats are theirs, the numbers are not: percentiles are of all requests of a run,
//! the median of the runs, where the originals averaged snapshots and then sweeps. A run in virtual
//! time has no date, and the columns for it stay empty.

use serde_json::{Value, json};

use crate::date::utc;
use stats::cell_summary::CellSummary;
use stats::summary::Summary;

/// Their names for two modes; other modes keep theirs.
const MODES: [(&str, &str); 2] = [("round-robin", "round_robin"), ("kv", "kv_aware")];

const COLUMNS: [&str; 17] = [
    "mode",
    "concurrency",
    "rps",
    "ttft_p50_sec",
    "ttft_p95_sec",
    "kv_hit_rate",
    "error_pct",
    "actual_rps",
    "tops",
    "itl_p50_sec",
    "itl_p95_sec",
    "tpot_p50_sec",
    "tpot_p95_sec",
    "latency_p50_sec",
    "latency_p95_sec",
    "measure_start_utc",
    "measure_end_utc",
];

/// Tab-separated, a line for each cell. They gave the rate that the load generator aimed at;
/// a closed loop aims at none, so `rps` is empty and `actual_rps` is what came.
pub fn tsv(summary: &Summary) -> String {
    let mut text = COLUMNS.join("\t") + "\n";
    for cell in &summary.cells {
        let seconds = |ms: Option<f64>| ms.map_or(String::new(), |ms| format!("{:.6}", ms / 1e3));
        let plain = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.6}"));
        let measured = cell.measured_ms.map(|(from, to)| (utc(from), utc(to)));
        let (start, end) = measured.unwrap_or_default();
        let fields = [
            their_name(&cell.mode).to_owned(),
            cell.concurrency
                .map_or(String::new(), |level| level.to_string()),
            String::new(),
            seconds(cell.ttft_ms.p50),
            seconds(cell.ttft_ms.p95),
            plain(cell.kv_hit_pct.map(|percent| percent / 100.0)),
            plain(error_pct(cell)),
            plain(Some(cell.rps)),
            plain(Some(cell.tops)),
            seconds(cell.itl_ms.p50),
            seconds(cell.itl_ms.p95),
            seconds(cell.tpot_ms.p50),
            seconds(cell.tpot_ms.p95),
            plain(cell.e2e_s.p50),
            plain(cell.e2e_s.p95),
            start,
            end,
        ];
        text += &(fields.join("\t") + "\n");
    }
    text
}

/// The averaged baseline that their console read, one object for each level. Modes that they
/// did not have are added under their own names.
pub fn averaged_baseline(summary: &Summary, generated: Option<&str>) -> Value {
    let levels = summary.levels.iter().filter_map(|&level| {
        let at_level = |cell: &&CellSummary| cell.concurrency == Some(level);
        let cells: Vec<&CellSummary> = summary.cells.iter().filter(at_level).collect();
        if cells.is_empty() {
            return None;
        }
        let mut object = json!({ "concurrency": level });
        for cell in cells {
            object[their_name(&cell.mode)] = figures(cell);
        }
        Some(object)
    });
    json!({
        "generated": generated,
        "type": "averaged_baseline",
        "num_sweeps": summary.about.repeats,
        "source_files": ["summary.json"],
        "metric": "medians over runs of percentiles of per-request client-side latencies",
        "target_rps": null,
        "simulated": summary.about.simulated,
        "run_id": summary.run_id,
        "levels": levels.collect::<Vec<_>>(),
    })
}

fn figures(cell: &CellSummary) -> Value {
    let milliseconds = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
    json!({
        "ttft_p50_ms": cell.ttft_ms.p50,
        "ttft_p95_ms": cell.ttft_ms.p95,
        "kv_hit_rate_pct": cell.kv_hit_pct,
        "error_pct": error_pct(cell),
        "actual_rps": cell.rps,
        "tops": cell.tops,
        "itl_p50_ms": cell.itl_ms.p50,
        "itl_p95_ms": cell.itl_ms.p95,
        "tpot_p50_ms": cell.tpot_ms.p50,
        "tpot_p95_ms": cell.tpot_ms.p95,
        "latency_p50_ms": milliseconds(cell.e2e_s.p50),
        "latency_p95_ms": milliseconds(cell.e2e_s.p95),
    })
}

fn error_pct(cell: &CellSummary) -> Option<f64> {
    (cell.requests > 0).then(|| 100.0 * cell.errors as f64 / cell.requests as f64)
}

fn their_name(mode: &str) -> &str {
    let found = MODES.iter().find(|(ours, _)| *ours == mode);
    found.map_or(mode, |(_, theirs)| theirs)
}
