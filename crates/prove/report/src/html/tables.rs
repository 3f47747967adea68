//! Every figure of every cell.

use super::text::{MISSING, count, escape, fixed, number, optional, percent};
use super::{Page, table};
use stats::cell_summary::CellSummary;
use stats::figures::Figures;

const SHARES: [&str; 4] = ["50", "90", "95", "99"];

pub(super) fn section(page: Page<'_>) -> String {
    let over = match page.summary.headline.is_some() {
        true => " ▲ marks what is over an objective.",
        false => "",
    };
    let mut cells = page.summary.cells.iter();
    let intervals = match cells.any(|cell| !cell.intervals.is_empty()) {
        true => "Rest a pointer on a figure to see its 95 % interval.",
        false => "There are not enough runs for intervals.",
    };
    format!(
        "<section id=\"tables\">\n<h2>Figures by level</h2>\n\
         <p>Every figure is the median of the runs of a mode at a level.{over} \
         † marks a doubtful cell, explained below. {intervals}</p>\n{}{}{}</section>\n",
        latencies(page),
        throughput(page),
        speculation(page),
    )
}

fn latencies(page: Page<'_>) -> String {
    let mut groups = String::new();
    for name in ["TTFT, ms", "TPOT, ms", "ITL, ms", "E2E, s"] {
        groups += &format!("<th scope=\"colgroup\" colspan=\"4\">{name}</th>");
    }
    let shares = SHARES
        .map(|share| format!("<th scope=\"col\">p{share}</th>"))
        .concat();
    let head = format!(
        "<tr><th scope=\"col\" rowspan=\"2\">at once</th><th scope=\"col\" rowspan=\"2\">mode</th>\
         {groups}</tr>\n<tr>{}</tr>",
        shares.repeat(4)
    );
    let row = |cell: &CellSummary| {
        let families: [(&str, &Figures); 4] = [
            ("ttft_ms", &cell.ttft_ms),
            ("tpot_ms", &cell.tpot_ms),
            ("itl_ms", &cell.itl_ms),
            ("e2e_s", &cell.e2e_s),
        ];
        let families = families.map(|(family, figures)| {
            let shares = SHARES.iter().zip(figures.all());
            let shares = shares.map(|(share, value)| {
                figure(page, cell, &format!("{family}_p{share}"), optional(value))
            });
            shares.collect::<String>()
        });
        families.concat()
    };
    table("Latency", &head, &rows(page, row))
}

fn throughput(page: Page<'_>) -> String {
    let names = [
        "requests",
        "errors",
        "TOPS",
        "RPS",
        "goodput, req/s",
        "goodput, %",
        "hit, %",
        "whole run: hit by usage, %",
        "by server, %",
        "spread, mean",
        "spread, max",
        "in flight, max",
        "queue p95, ms",
        "queue max, ms",
        "adjusted TTFT p95, ms",
    ];
    let names = names
        .map(|name| format!("<th scope=\"col\">{name}</th>"))
        .concat();
    let head = format!(
        "<tr><th scope=\"col\">at once</th><th scope=\"col\" class=\"left\">mode</th>{names}</tr>"
    );
    let row = |cell: &CellSummary| {
        let traffic = &cell.traffic;
        let errors = match cell.errors {
            0 => "<td>0</td>".to_owned(),
            errors => format!("<td class=\"over\">{}&#8239;▲</td>", count(errors)),
        };
        let spread = cell.inflight_spread;
        let mean = spread
            .mean
            .map_or(MISSING.to_owned(), |mean| fixed(mean, 1));
        [
            plain(count(cell.requests)),
            errors,
            figure(page, cell, "tops", number(cell.tops)),
            figure(page, cell, "rps", number(cell.rps)),
            plain(optional(cell.goodput_rps)),
            plain(percent(cell.goodput_pct)),
            figure(page, cell, "kv_hit_pct", percent(cell.kv_hit_pct)),
            plain(percent(cell.run_hit_pct)),
            plain(percent(cell.server_hit_pct)),
            plain(mean),
            plain(spread.max.to_string()),
            plain(traffic.inflight_max.to_string()),
            plain(optional(traffic.queue_ms.p95)),
            plain(optional(traffic.queue_ms_max)),
            plain(optional(cell.adjusted_ttft_ms.p95)),
        ]
        .concat()
    };
    table("Throughput, cache and workers", &head, &rows(page, row))
}

/// Only if somebody drafted.
fn speculation(page: Page<'_>) -> String {
    let cells = &page.summary.cells;
    if cells.iter().all(|cell| cell.speculation.is_none()) {
        return String::new();
    }
    let head = "<tr><th scope=\"col\">at once</th><th scope=\"col\" class=\"left\">mode</th>\
                <th scope=\"col\">accepted of drafted, %</th>\
                <th scope=\"col\">tokens a step</th></tr>";
    let row = |cell: &CellSummary| {
        let found = cell.speculation;
        let tokens = found.and_then(|found| found.tokens_per_step);
        [
            plain(percent(found.and_then(|found| found.acceptance_pct))),
            plain(tokens.map_or(MISSING.to_owned(), |tokens| fixed(tokens, 2))),
        ]
        .concat()
    };
    table("Speculation", head, &rows(page, row))
}

fn plain(text: String) -> String {
    format!("<td>{text}</td>")
}

/// With its interval, and a mark if it is over an objective.
fn figure(page: Page<'_>, cell: &CellSummary, name: &str, text: String) -> String {
    let interval = cell.intervals.get(name).map(|interval| {
        let (low, high) = (number(interval.low), number(interval.high));
        format!(" title=\"95 %: {low} to {high}\"")
    });
    let interval = interval.unwrap_or_default();
    let is_over = page
        .limit(name)
        .zip(cell.value(name))
        .is_some_and(|(limit, value)| value > limit);
    match is_over {
        true => format!("<td class=\"over\"{interval}>{text}&#8239;▲</td>"),
        false => format!("<td{interval}>{text}</td>"),
    }
}

/// Cells in their order; a level is named once.
fn rows(page: Page<'_>, row: impl Fn(&CellSummary) -> String) -> String {
    let cells = &page.summary.cells;
    let mut rows = String::new();
    for (index, cell) in cells.iter().enumerate() {
        let is_first = index == 0 || cells[index - 1].concurrency != cell.concurrency;
        let mut level = String::new();
        if is_first {
            let same = cells[index..].iter();
            let same = same
                .take_while(|other| other.concurrency == cell.concurrency)
                .count();
            let text = cell
                .concurrency
                .map_or(MISSING.to_owned(), |level| level.to_string());
            level = format!("<th scope=\"rowgroup\" rowspan=\"{same}\">{text}</th>");
        }
        let class = if is_first { " class=\"first\"" } else { "" };
        let doubt = if cell.guards.is_empty() { "" } else { " †" };
        rows += &format!(
            "<tr{class}>{level}<th scope=\"row\">{}{doubt}</th>{}</tr>\n",
            chip(page, &cell.mode),
            row(cell)
        );
    }
    rows
}

/// A mode's name with its colour.
pub(super) fn chip(page: Page<'_>, mode: &str) -> String {
    let look = page.modes().find(|(name, _)| *name == mode);
    let class = look.map_or(String::new(), |(_, look)| look.class());
    format!("<span class=\"chip {class}\"></span>{}", escape(mode))
}
