//! Figures over concurrency: a line for each mode, with its interval.

use super::axis::{Axis, LIMIT_WITHIN, range};
use super::chart::Chart;
use super::look::Point;
use super::text::{label, label_and_unit, number, short};
use super::{Figure, Page};

const WAITS: &str = "How long users wait for the first token";
const DRAWN: [(&str, &str); 5] = [
    ("ttft_ms_p50", "the median"),
    ("ttft_ms_p95", "one request in twenty waits longer"),
    ("tpot_ms_p95", "How slowly an answer is read out, per token"),
    ("tops", "Output tokens a second, all workers together"),
    (
        "kv_hit_pct",
        "Prompt tokens that were found in a cache, by the answers' usage",
    ),
];

pub(super) fn figures(page: Page<'_>) -> Vec<Figure> {
    let drawn = DRAWN.iter().filter_map(|&(figure, meaning)| {
        let meaning = match figure.starts_with("ttft") {
            true => format!("{WAITS}: {meaning}"),
            false => meaning.to_owned(),
        };
        curve(page, figure, &meaning)
    });
    drawn.collect()
}

/// `None` if there is nothing to draw.
fn curve(page: Page<'_>, figure: &str, meaning: &str) -> Option<Figure> {
    let levels = &page.summary.levels;
    let limit = page.limit(figure);
    let cells = levels.iter().flat_map(|&level| {
        let modes = page.modes();
        modes.filter_map(move |(mode, _)| page.cell(mode, level))
    });
    let values: Vec<f64> = cells
        .flat_map(|cell| {
            let interval = cell.intervals.get(figure);
            let ends = interval.map(|interval| [interval.low, interval.high]);
            cell.value(figure)
                .into_iter()
                .chain(ends.into_iter().flatten())
        })
        .collect();
    let (_, most) = range(&values)?;
    let is_near = |limit: &f64| *limit <= most * LIMIT_WITHIN;
    let shown = limit.filter(is_near);
    let all: Vec<f64> = values.iter().copied().chain(shown).collect();
    let y = match figure.starts_with("ttft") {
        true => Axis::fitting(&all),
        false => Axis::from_zero(&all),
    };
    let beyond = limit.filter(|_| shown.is_none());
    let caption = caption(page, figure, meaning, &y, beyond);
    let places: Vec<f64> = levels.iter().copied().map(f64::from).collect();
    let x = Axis::marked(&places);
    let mut chart = Chart::new(&label(figure), x, y, "conversations at once");
    chart.legend = page.legend();
    fill(&mut chart, page, figure);
    if let Some(limit) = shown {
        chart.limit_y(limit, &format!("objective {} ms", short(limit)));
    }
    Some(Figure {
        id: format!("figure-{}", figure.replace('_', "-")),
        chart,
        caption,
    })
}

/// Bands first, so that no line is below one.
fn fill(chart: &mut Chart, page: Page<'_>, figure: &str) {
    let levels = &page.summary.levels;
    for (mode, look) in page.modes() {
        let band = levels.iter().map(|&level| {
            let interval = page.cell(mode, level)?.intervals.get(figure)?;
            Some((f64::from(level), interval.low, interval.high))
        });
        chart.band(look, &band.collect::<Vec<_>>());
    }
    let (_, unit) = label_and_unit(figure);
    for (mode, look) in page.modes() {
        let of_level = |level: u32| page.cell(mode, level)?.value(figure);
        let line = levels
            .iter()
            .map(|&level| Some(Point::new(f64::from(level), of_level(level)?)));
        chart.line(look, &line.collect::<Vec<_>>());
        for &level in levels {
            let Some(cell) = page.cell(mode, level) else {
                continue;
            };
            let Some(value) = cell.value(figure) else {
                continue;
            };
            let mut says = format!("{mode} at {level}: {} {unit}", number(value));
            if let Some(interval) = cell.intervals.get(figure) {
                says += &format!(
                    ", 95 % {} to {}",
                    number(interval.low),
                    number(interval.high)
                );
            }
            chart.point(look, Point::new(f64::from(level), value), &says);
        }
    }
}

fn caption(page: Page<'_>, figure: &str, meaning: &str, y: &Axis, beyond: Option<f64>) -> String {
    let mut caption = format!("{meaning}.");
    let mut cells = page.summary.cells.iter();
    if cells.any(|cell| cell.intervals.contains_key(figure)) {
        caption += " Bands are 95 % intervals.";
    }
    if y.is_log {
        caption += " The axis is logarithmic.";
    }
    if let Some(limit) = beyond {
        caption += &format!(
            " The objective of {} ms lies above the drawing.",
            short(limit)
        );
    }
    caption
}
