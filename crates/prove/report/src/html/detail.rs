//! Behind the curves: waiting by turn, and what each worker carried, second by second.

use super::axis::{Axis, LIMIT_WITHIN, range};
use super::chart::Chart;
use super::look::{COLOURS, Look, Point};
use super::text::{count, list, number};
use super::{Figure, Page};
use stats::traffic::Timeline;

/// More would not be seen in a drawing of this width.
const MOST_STEPS: usize = 300;

/// At the lowest, a middle and the highest level.
pub(super) fn turns(page: Page<'_>) -> Vec<Figure> {
    let has_turns = |level: &&u32| {
        let mut cells = page.summary.cells.iter();
        cells.any(|cell| cell.concurrency == Some(**level) && !cell.turns.is_empty())
    };
    let levels: Vec<u32> = page
        .summary
        .levels
        .iter()
        .filter(has_turns)
        .copied()
        .collect();
    let mut chosen = match levels.len() {
        0 => return Vec::new(),
        count => vec![levels[0], levels[count / 2], levels[count - 1]],
    };
    chosen.dedup();
    let cells = page.summary.cells.iter();
    let shown = cells.filter(|cell| {
        cell.concurrency
            .is_some_and(|level| chosen.contains(&level))
    });
    let turns = shown.flat_map(|cell| &cell.turns);
    let times = turns
        .clone()
        .flat_map(|turn| [turn.ttft_ms_p50, turn.ttft_ms_p95]);
    let y = Axis::fitting(&times.flatten().collect::<Vec<_>>());
    let most = turns.map(|turn| turn.turn).max().unwrap_or(1);
    let x = Axis::marked(&(1..=most).map(f64::from).collect::<Vec<_>>());
    let of_level = |&level: &u32| by_turn(page, level, &x, &y);
    chosen.iter().map(of_level).collect()
}

fn by_turn(page: Page<'_>, level: u32, x: &Axis, y: &Axis) -> Figure {
    let title = format!("TTFT by turn at {level}, ms");
    let mut chart = Chart::new(&title, x.clone(), y.clone(), "turn of the conversation");
    chart.legend = page.legend();
    let modes = page.modes().count() as f64;
    let turns = x.ticks.last().map_or(1.0, |last| (last - 1.0).max(1.0));
    // All of them within the room that the axis leaves at its ends.
    let step = (0.12 * turns / (modes - 1.0).max(1.0)).min(0.12);
    for (index, (mode, look)) in page.modes().enumerate() {
        let Some(cell) = page.cell(mode, level) else {
            continue;
        };
        // Side by side, so that they do not hide each other.
        let aside = step * (index as f64 - (modes - 1.0) / 2.0);
        let place = |turn: u32, y: f64| Point::new(f64::from(turn) + aside, y);
        let medians = cell
            .turns
            .iter()
            .map(|turn| Some(place(turn.turn, turn.ttft_ms_p50?)));
        chart.line(look, &medians.collect::<Vec<_>>());
        for turn in &cell.turns {
            let (Some(median), Some(tail)) = (turn.ttft_ms_p50, turn.ttft_ms_p95) else {
                continue;
            };
            let at = place(turn.turn, median);
            chart.whisker(look, at, place(turn.turn, tail));
            let mut says = format!(
                "{mode}, turn {}: p50 {} ms, p95 {} ms, {} answers",
                turn.turn,
                number(median),
                number(tail),
                count(turn.samples),
            );
            if let Some(cached) = turn.cached_pct {
                says += &format!(", {cached:.1} % cached");
            }
            chart.point(look, at, &says);
        }
    }
    let log = if y.is_log {
        " The axis is logarithmic."
    } else {
        ""
    };
    Figure {
        id: format!("figure-turns-{level}"),
        chart,
        caption: format!(
            "TTFT by turn with {level} conversations at once: points are medians, lines above \
             them reach to p95.{log}"
        ),
    }
}

/// One drawing for each mode, on equal axes.
pub(super) fn timelines(page: Page<'_>, timelines: &[(String, Timeline)]) -> Vec<Figure> {
    let drawn = || {
        timelines
            .iter()
            .filter(|(_, timeline)| !timeline.workers.is_empty())
    };
    let cells = page.summary.cells.iter();
    let slots = cells.filter_map(|cell| cell.slots).max().map(f64::from);
    let lines = drawn().flat_map(|(_, timeline)| timeline.workers.values());
    let seconds = lines.clone().map(Vec::len).max().unwrap_or(0);
    let counts: Vec<f64> = lines.flatten().copied().map(f64::from).collect();
    let (_, most) = range(&counts).unwrap_or_default();
    let limit = slots.filter(|&slots| slots <= most * LIMIT_WITHIN);
    // What matters is how far workers are apart and from their slots, not from 0.
    let y = Axis::around(&counts.into_iter().chain(limit).collect::<Vec<_>>());
    let x = Axis::from_zero(&[seconds as f64]);
    let figures = drawn().enumerate().map(|(index, (mode, timeline))| {
        let title = format!("In flight by worker, {mode}");
        let mut chart = Chart::new(&title, x.clone(), y.clone(), "seconds of the window");
        fill(&mut chart, timeline);
        if let Some(slots) = limit {
            chart.limit_y(slots, &format!("{slots:.0} slots"));
        }
        Figure {
            id: format!("figure-workers-{index}"),
            chart,
            caption: told(page, mode, timeline),
        }
    });
    figures.collect()
}

fn fill(chart: &mut Chart, timeline: &Timeline) {
    let workers = timeline.workers.iter().enumerate();
    if timeline.workers.len() <= COLOURS {
        let names = workers
            .clone()
            .map(|(index, (name, _))| (called(name), Look::worker(index)));
        chart.legend = names.collect();
    }
    for (index, (_, counts)) in workers {
        let look = Look::worker(index);
        let together = counts.len().div_ceil(MOST_STEPS).max(1);
        let steps = counts.chunks(together).enumerate().map(|(step, counts)| {
            let most = counts.iter().copied().max()?;
            Some(Point::new((step * together) as f64, f64::from(most)))
        });
        chart.thin_line(look, &steps.collect::<Vec<_>>());
    }
}

fn told(page: Page<'_>, mode: &str, timeline: &Timeline) -> String {
    let level = page.summary.levels.iter().rev();
    let level = level
        .copied()
        .find(|&level| page.cell(mode, level).is_some());
    let at = level.map_or(String::new(), |level| {
        format!(" with {level} conversations at once")
    });
    let mut told = format!(
        "Requests in flight on each of {} workers{at}, {mode}, first run.",
        timeline.workers.len()
    );
    let busiest = timeline
        .workers
        .iter()
        .map(|(name, counts)| (counts.iter().max(), name));
    if let Some((Some(most), _)) = busiest.clone().max() {
        let with_most = busiest.filter(|(count, _)| *count == Some(most));
        let names: Vec<String> = with_most.map(|(_, name)| called(name)).collect();
        told += &format!(" The most on one: {most}, on {}.", list(&names));
    }
    told
}

/// Simulated workers have only numbers.
fn called(worker: &str) -> String {
    match worker.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("worker {worker}"),
        false => worker.to_owned(),
    }
}
