//! Throughput against waiting: what one costs in the other.

use super::axis::{Axis, LIMIT_WITHIN, range};
use super::chart::Chart;
use super::text::{number, short};
use super::{Figure, Page};

const WAIT: &str = "ttft_ms_p95";
/// Points of one mode crowd together sooner than lines do.
const LINEAR_UP_TO: f64 = 10.0;
/// What a label takes: half its width and half its height.
const LABEL: (f64, f64) = (13.0, 8.0);
/// Around a point.
const POINT: (f64, f64) = (5.0, 5.0);
/// Where a label may stand, from the point, best first: aside, since lines mostly come from
/// below or from the left.
const AROUND: [(f64, f64); 6] = [
    (18.0, -10.0),
    (-18.0, -10.0),
    (18.0, 11.0),
    (-18.0, 11.0),
    (0.0, -16.0),
    (0.0, 17.0),
];

/// `None` without levels, as of a replay.
pub(super) fn figure(page: Page<'_>) -> Option<Figure> {
    let point = |mode: &str, level: u32| {
        let cell = page.cell(mode, level)?;
        Some((cell.value(WAIT)?, cell.tops))
    };
    let levels = &page.summary.levels;
    let modes: Vec<_> = page.modes().collect();
    let all = modes.iter().flat_map(|(mode, _)| {
        let of_mode = levels.iter().filter_map(|&level| point(mode, level));
        of_mode.collect::<Vec<_>>()
    });
    let all: Vec<(f64, f64)> = all.collect();
    let (_, most) = range(&all.iter().map(|(wait, _)| *wait).collect::<Vec<_>>())?;
    let limit = page
        .limit(WAIT)
        .filter(|limit| *limit <= most * LIMIT_WITHIN);
    let waits: Vec<f64> = all.iter().map(|(wait, _)| *wait).chain(limit).collect();
    let tops: Vec<f64> = all.iter().map(|(_, tops)| *tops).collect();
    let (x, y) = (Axis::log_beyond(LINEAR_UP_TO, &waits), Axis::around(&tops));
    let mut caption = "Each point is a level, named by its conversations at once; up is more \
                       work done, left is less waiting."
        .to_owned();
    if x.is_log {
        caption += " The horizontal axis is logarithmic.";
    }
    let mut chart = Chart::new("Tokens/s against TTFT p95", x, y, "TTFT p95, ms");
    chart.legend = page.legend();
    if let Some(limit) = limit {
        chart.limit_x(limit, &format!("objective {} ms", short(limit)));
    }
    for &(mode, look) in &modes {
        let line: Vec<_> = levels.iter().map(|&level| point(mode, level)).collect();
        chart.line(look, &line);
    }
    for &(mode, look) in &modes {
        for &level in levels {
            if let Some((wait, tops)) = point(mode, level) {
                let (wait_text, tops_text) = (number(wait), number(tops));
                let says =
                    format!("{mode} at {level}: {tops_text} tokens/s, TTFT p95 {wait_text} ms");
                chart.point(look, (wait, tops), &says);
            }
        }
    }
    let labelled = modes.iter().flat_map(|(mode, _)| {
        let of_mode = levels
            .iter()
            .filter_map(|&level| Some((level, point(mode, level)?)));
        of_mode.collect::<Vec<_>>()
    });
    label(&mut chart, &labelled.collect::<Vec<_>>());
    Some(Figure {
        id: "figure-pareto".to_owned(),
        chart,
        caption,
    })
}

/// Labels stand where they cover neither points nor each other; one without a place is left
/// out, since its point still tells.
fn label(chart: &mut Chart, points: &[(u32, (f64, f64))]) {
    let placed = points
        .iter()
        .filter_map(|&(level, point)| Some((level, chart.place(point)?)));
    let placed: Vec<(u32, (f64, f64))> = placed.collect();
    let mut taken: Vec<_> = placed.iter().map(|&(_, place)| (place, POINT)).collect();
    for &(level, (x, y)) in &placed {
        let free = AROUND
            .iter()
            .map(|(right, down)| (x + right, y + down))
            .find(|&place| {
                place.1 > 0.0 && !taken.iter().any(|&other| overlap((place, LABEL), other))
            });
        if let Some(place) = free {
            taken.push((place, LABEL));
            chart.words((place.0, place.1 + 4.0), "middle", &level.to_string());
        }
    }
}

type Centred = ((f64, f64), (f64, f64));

fn overlap((one, its): Centred, (other, others): Centred) -> bool {
    (one.0 - other.0).abs() < its.0 + others.0 && (one.1 - other.1).abs() < its.1 + others.1
}
