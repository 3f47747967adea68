//! A summary as a page of Markdown: what to paste into a pull request or a post.

use std::fmt::Write as _;

use stats::cell_summary::CellSummary;
use stats::intervals::{Difference, NEEDED_RUNS, NOT_ENOUGH_RUNS};
use stats::summary::Summary;

/// Figures that are compared in tables of their own: name, heading, unit, digits.
const COMPARED: [(&str, &str, &str, usize); 6] = [
    ("ttft_ms_p50", "TTFT p50", " ms", 0),
    ("ttft_ms_p95", "TTFT p95", " ms", 0),
    ("tpot_ms_p50", "TPOT p50", " ms", 1),
    ("tpot_ms_p95", "TPOT p95", " ms", 1),
    ("e2e_s_p50", "Latency p50", " s", 1),
    ("tops", "Tokens a second", "", 0),
];

/// The whole page.
pub fn markdown(summary: &Summary) -> String {
    let mut page = String::new();
    head(&mut page, summary);
    headline(&mut page, summary);
    for (figure, heading, unit, digits) in COMPARED {
        compared(&mut page, summary, figure, (heading, unit, digits));
    }
    cells(&mut page, summary);
    speculation(&mut page, summary);
    doubts(&mut page, summary);
    method(&mut page, summary);
    page
}

fn put(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("a string takes any text");
}

fn head(page: &mut String, summary: &Summary) {
    let about = &summary.about;
    put(page, format_args!("# Sweep {}\n\n", summary.run_id));
    if about.simulated {
        page.push_str("**Simulated servers.** These are figures of a simulation, not of GPUs.\n\n");
    }
    if summary.done < summary.planned {
        put(
            page,
            format_args!(
                "**Partial:** {} of {} runs.\n\n",
                summary.done, summary.planned
            ),
        );
    }
    let workers = about
        .workers
        .map_or("unknown".to_owned(), |workers| workers.to_string());
    let levels: Vec<String> = summary.levels.iter().map(u32::to_string).collect();
    let rows = [
        ("Testbed", about.testbed.clone()),
        ("Workload", about.workload.clone()),
        ("Profile or model", about.profile.clone()),
        ("Workers", workers),
        ("Modes", summary.modes.join(", ")),
        ("Conversations at once", levels.join(", ")),
        (
            "Runs",
            format!(
                "{} of each, {} s + {} s, order {}",
                about.repeats, about.warmup_s, about.window_s, about.order
            ),
        ),
        ("Seed", about.seed.to_string()),
    ];
    page.push_str("| | |\n|---|---|\n");
    for (name, value) in rows {
        put(page, format_args!("| {name} | {value} |\n"));
    }
    put(page, format_args!("\n```sh\n{}\n```\n\n", about.command));
    let certainty = summary.certainty();
    if !certainty.is_empty() {
        put(page, format_args!("{certainty}\n\n"));
    }
}

fn headline(page: &mut String, summary: &Summary) {
    let Some(headline) = &summary.headline else {
        return;
    };
    put(
        page,
        format_args!(
            "## Highest load with {}\n\n| mode | conversations at once | | unsure |\n\
             |---|---:|---|---|\n",
            headline.slo.objectives
        ),
    );
    for mode in &summary.modes {
        let Some(highest) = headline.slo.highest.get(mode) else {
            continue;
        };
        let level = highest.map_or("none".to_owned(), |level| format!("**{level}**"));
        let failed = headline.slo.failed_below.get(mode);
        let failed: Vec<String> = failed.into_iter().flatten().map(u32::to_string).collect();
        let but = match failed.is_empty() {
            true => String::new(),
            false => format!("but not at {}", failed.join(", ")),
        };
        let unsure = match headline.slo.unsure.get(mode) {
            Some(Some(levels)) => {
                let levels: Vec<String> = levels.iter().map(u32::to_string).collect();
                levels.join(", ")
            }
            _ => NOT_ENOUGH_RUNS.to_owned(),
        };
        put(
            page,
            format_args!("| {mode} | {level} | {but} | {unsure} |\n"),
        );
    }
    page.push_str(
        "\nUnsure are levels at which an objective lies within the 95 % interval of its figure: \
         another sweep may find the opposite.\n\n",
    );
    for crossover in &headline.crossovers {
        put(page, format_args!("{}\n\n", crossover.analysis));
    }
    if headline.crossovers.is_empty() && summary.has_verdicts() {
        put(
            page,
            format_args!(
                "No mode has a significantly longer TTFT (p50, p95) than {} at a level from \
                 which on it stays so.\n\n",
                summary.modes[0]
            ),
        );
    }
}

fn compared(page: &mut String, summary: &Summary, figure: &str, form: (&str, &str, usize)) {
    let (heading, unit, digits) = form;
    let Some((first, others)) = summary.modes.split_first() else {
        return;
    };
    put(
        page,
        format_args!("## {heading}\n\n| concurrency | {first} |"),
    );
    for mode in others {
        put(
            page,
            format_args!(" {mode} | change | 95 % interval of the difference |"),
        );
    }
    page.push_str("\n|---:|---:|");
    page.push_str(&"---:|---:|---|".repeat(others.len()));
    page.push('\n');
    for &level in &summary.levels {
        let value = |mode: &str| {
            let value = cell(summary, mode, level).and_then(|cell| cell.value(figure));
            value.map_or("–".to_owned(), |value| format!("{value:.digits$}{unit}"))
        };
        put(page, format_args!("| {level} | {} |", value(first)));
        for mode in others {
            let found = difference(summary, mode, level, figure);
            let change = found.and_then(|one| one.change_pct);
            let change = change.map_or("–".to_owned(), |change| format!("{change:+.1} %"));
            let judged = found.map_or(String::new(), |one| {
                let verdict = one.verdict.name();
                one.interval.map_or(verdict.to_owned(), |interval| {
                    let (low, high) = (interval.low, interval.high);
                    format!("{low:+.digits$} to {high:+.digits$}{unit}: {verdict}")
                })
            });
            put(
                page,
                format_args!(" {} | {change} | {judged} |", value(mode)),
            );
        }
        page.push('\n');
    }
    page.push('\n');
}

fn cells(page: &mut String, summary: &Summary) {
    page.push_str(
        "## Every cell\n\n\
         | concurrency | mode | requests | errors | TTFT p50/p90/p95/p99 ms | TPOT p50/p95 ms | \
         ITL p50/p95 ms | latency p50/p95 s | tokens/s | requests/s | goodput % | hit % | \
         whole run: usage/server % | spread mean/max | most in flight | longest wait ms | lag p95 ms |\n\
         |---:|---|---:|---:|---|---|---|---|---:|---:|---:|---:|---|---|---:|---:|---:|\n",
    );
    for cell in &summary.cells {
        let number = |value: Option<f64>, digits: usize| {
            value.map_or("–".to_owned(), |value| format!("{value:.digits$}"))
        };
        let several = |values: &[Option<f64>], digits: usize| {
            let values: Vec<String> = values.iter().map(|&value| number(value, digits)).collect();
            values.join("/")
        };
        let fields = [
            cell.concurrency
                .map_or("–".to_owned(), |level| level.to_string()),
            cell.mode.clone(),
            cell.requests.to_string(),
            cell.errors.to_string(),
            several(&cell.ttft_ms.all(), 0),
            several(&[cell.tpot_ms.p50, cell.tpot_ms.p95], 1),
            several(&[cell.itl_ms.p50, cell.itl_ms.p95], 1),
            several(&[cell.e2e_s.p50, cell.e2e_s.p95], 1),
            number(Some(cell.tops), 0),
            number(Some(cell.rps), 2),
            number(cell.goodput_pct, 1),
            number(cell.kv_hit_pct, 1),
            several(&[cell.run_hit_pct, cell.server_hit_pct], 1),
            format!(
                "{}/{}",
                number(cell.inflight_spread.mean, 1),
                cell.inflight_spread.max
            ),
            cell.traffic.inflight_max.to_string(),
            number(cell.traffic.queue_ms_max, 0),
            number(cell.lag_ms_p95, 1),
        ];
        put(page, format_args!("| {} |\n", fields.join(" | ")));
    }
    page.push('\n');
}

/// Only if somebody drafted.
fn speculation(page: &mut String, summary: &Summary) {
    let drafted = |cell: &&CellSummary| cell.speculation.is_some();
    if !summary.cells.iter().any(|cell| drafted(&cell)) {
        return;
    }
    page.push_str(
        "## Speculation\n\n\
         | concurrency | mode | accepted of drafted | tokens a step |\n|---:|---|---:|---:|\n",
    );
    for cell in summary.cells.iter().filter(drafted) {
        let Some(found) = cell.speculation else {
            continue;
        };
        let level = cell.concurrency.unwrap_or(0);
        let accepted = found.acceptance_pct.unwrap_or(0.0);
        let tokens = found.tokens_per_step.unwrap_or(1.0);
        put(
            page,
            format_args!(
                "| {level} | {} | {accepted:.1} % | {tokens:.2} |\n",
                cell.mode
            ),
        );
    }
    page.push('\n');
}

fn doubts(page: &mut String, summary: &Summary) {
    page.push_str("## Doubts\n\n");
    let mut none = true;
    for cell in &summary.cells {
        for guard in &cell.guards {
            none = false;
            let level = cell.concurrency.unwrap_or(0);
            put(
                page,
                format_args!("- {} at {level}: {}.\n", cell.mode, guard.detail),
            );
        }
    }
    if none {
        page.push_str(
            "None: every cell had enough requests, few errors, a steady load and its own mode.\n",
        );
    }
    page.push('\n');
}

fn method(page: &mut String, summary: &Summary) {
    put(
        page,
        format_args!(
            "## Method\n\n\
             A figure of a cell is the median of its {} run(s), each with a seed of its own. \
             Percentiles of a run are nearest ranks over the requests that were sent within its \
             window. A 95 % interval goes from the lowest run to the highest, or closer where \
             there are nine or more (order statistics of the median); fewer than {NEEDED_RUNS} runs \
             have no interval and no verdict. Conversations of a repeat are the same in every \
             mode, differences are taken run by run, and a change is their median. An interval is \
             about its own difference; verdicts are about all {} differences of this report \
             together (t test of the runs' ratios, Holm): where nothing differs, at most one report in twenty has a wrong one. So a \
             difference may be not significant although its interval leaves 0 out. Tokens are \
             the server's count. Everything is computed from the lines in `cells/`; `homing \
             sweep report` does it again.\n",
            summary.about.repeats,
            summary.differences.len(),
        ),
    );
}

fn cell<'a>(summary: &'a Summary, mode: &str, level: u32) -> Option<&'a CellSummary> {
    let mut cells = summary.cells.iter();
    cells.find(|cell| cell.mode == mode && cell.concurrency == Some(level))
}

fn difference<'a>(
    summary: &'a Summary,
    mode: &str,
    level: u32,
    figure: &str,
) -> Option<&'a Difference> {
    let mut all = summary.differences.iter();
    all.find(|one| one.mode == mode && one.concurrency == level && one.figure == figure)
}
