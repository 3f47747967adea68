//! A run as a Markdown table: one row for each contestant at each level.

use std::fmt::Write as _;

use stats::Summary;

const HEAD: &str = "\
| conversations | contestant | TTFT p50 ms | p95 | p99 | ITL p50 ms | p95 | latency p50 s | p95 | tokens/s | hit % | sent past slots | errors |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
";

/// The whole run, under a heading.
pub fn markdown(summary: &Summary) -> String {
    let about = &summary.about;
    let mut table = format!(
        "## {}\n\nSimulated: {} workers, profile {}, seed {}.\n\n{HEAD}",
        about.workload,
        about.workers.unwrap_or(0),
        about.profile,
        about.seed
    );
    for cell in &summary.cells {
        let level = cell.concurrency.map_or("-".to_owned(), |n| n.to_string());
        let mut fields = vec![level, cell.mode.clone()];
        let ttft = cell.ttft_ms;
        fields.extend([ttft.p50, ttft.p95, ttft.p99].map(|value| figure(value, 0)));
        fields.extend([cell.itl_ms.p50, cell.itl_ms.p95].map(|value| figure(value, 1)));
        fields.extend([cell.e2e_s.p50, cell.e2e_s.p95].map(|value| figure(value, 1)));
        fields.push(figure(Some(cell.tops), 0));
        fields.push(figure(cell.kv_hit_pct, 1));
        fields.push(cell.dispatched_past_slots.unwrap_or(0).to_string());
        fields.push(cell.errors.to_string());
        writeln!(table, "| {} |", fields.join(" | ")).expect("a string takes any text");
    }
    table
}

fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.digits$}"))
}
