//! A sweep as one page: a file that needs nothing else, to read, to print, to put on the web.
//!
//! The page is a function of the data alone: no date, no script, no font or picture from
//! elsewhere. Equal data give equal bytes. Drawings are SVG with their figures in the text that
//! appears under a pointer; light or dark is the reader's choice.
//!
//! | module | what it does |
//! |---|---|
//! | `overview`, `headline` | what was run, and what came of it |
//! | `curves`, `pareto`, `detail` | drawings over load; of throughput against latency; by turn and by second |
//! | `tables`, `differences` | every figure; each mode against the first |
//! | `doubts`, `method` | what to be careful with, and how figures are made |
//! | `axis`, `look`, `chart`, `text` | how drawings and numbers are made |

mod axis;
mod chart;
mod curves;
mod detail;
mod differences;
mod doubts;
mod headline;
mod look;
mod method;
mod overview;
mod pareto;
mod tables;
#[cfg(test)]
mod tests;
mod text;

use self::chart::Chart;
use self::look::Look;
use self::text::escape;
use stats::cell_summary::CellSummary;
use stats::summary::{ReportData, Summary};

const STYLE: &str = include_str!("html/style.css");

/// The whole page.
pub fn html(data: &ReportData) -> String {
    let page = Page {
        summary: &data.summary,
    };
    let title = escape(&page.title());
    let parts = [
        overview::section(page),
        headline::section(page),
        drawings(page, data),
        tables::section(page),
        differences::section(page),
        doubts::section(page),
        method::section(page),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}</main>\n\
         </body>\n</html>\n",
        parts.concat(),
    )
}

/// All drawings, with numbers in the order in which they are met.
fn drawings(page: Page<'_>, data: &ReportData) -> String {
    let mut over_load = curves::figures(page);
    over_load.extend(pareto::figure(page));
    let groups = [
        over_load,
        detail::turns(page),
        detail::timelines(page, &data.timelines),
    ];
    let mut number = 0;
    let mut text = String::new();
    for group in groups.iter().filter(|group| !group.is_empty()) {
        // Three that belong together stand side by side where there is room.
        let class = if group.len() == 3 {
            "figures three"
        } else {
            "figures"
        };
        text += &format!("<div class=\"{class}\">\n");
        for figure in group {
            number += 1;
            text += &figure.html(number, page.summary.about.simulated);
        }
        text += "</div>\n";
    }
    match number {
        0 => String::new(),
        _ => format!("<section id=\"charts\">\n<h2>Charts</h2>\n{text}</section>\n"),
    }
}

/// A drawing with what is said about it.
struct Figure {
    /// Unique on the page.
    id: String,
    chart: Chart,
    caption: String,
}

impl Figure {
    fn html(&self, number: usize, is_simulated: bool) -> String {
        let mut chart = self.chart.clone();
        chart.is_simulated = is_simulated;
        let mark = match is_simulated {
            true => "<strong class=\"mark\">SIMULATED</strong> ",
            false => "",
        };
        format!(
            "<figure id=\"{}\">{}<figcaption>{mark}<b>Figure {number}.</b> {}</figcaption></figure>\n",
            escape(&self.id),
            chart.svg(&format!("{}. {}", self.chart.title, self.caption)),
            escape(&self.caption),
        )
    }
}

/// What every part of the page looks things up in.
#[derive(Clone, Copy)]
struct Page<'a> {
    summary: &'a Summary,
}

impl<'a> Page<'a> {
    fn title(self) -> String {
        format!("Sweep: {}", self.summary.about.workload)
    }

    /// Modes with their looks.
    fn modes(self) -> impl Iterator<Item = (&'a str, Look)> {
        let modes = self.summary.modes.iter().enumerate();
        modes.map(|(number, mode)| (mode.as_str(), Look::mode(number)))
    }

    fn legend(self) -> Vec<(String, Look)> {
        let modes = self.modes();
        modes.map(|(mode, look)| (mode.to_owned(), look)).collect()
    }

    /// What others are compared with.
    fn first_mode(self) -> &'a str {
        self.summary.modes.first().map_or("", String::as_str)
    }

    fn cell(self, mode: &str, level: u32) -> Option<&'a CellSummary> {
        let mut cells = self.summary.cells.iter();
        cells.find(|cell| cell.mode == mode && cell.concurrency == Some(level))
    }

    /// The objective on a figure, in the figure's unit.
    fn limit(self, figure: &str) -> Option<f64> {
        let objectives = &self.summary.headline.as_ref()?.slo.objectives;
        let (family, unit_ms) = match figure.split_once("_ms_") {
            Some((family, share)) => (format!("{family}_{share}"), 1.0),
            None => (figure.replace("_s_", "_"), 1e3),
        };
        let found = objectives.limits_ms().find(|(name, _)| *name == family);
        found.map(|(_, ms)| ms / unit_ms)
    }
}

/// A table that scrolls by itself where the screen is narrow.
fn table(caption: &str, head: &str, body: &str) -> String {
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>\
         <caption>{0}</caption>\n<thead>{head}</thead>\n<tbody>\n{body}</tbody></table></div>\n",
        escape(caption),
    )
}
