//! Throughput against waiting: what one costs in the other.

use super::axis::{Axis, LIMIT_WITHIN, range};
use super::chart::Chart;
use super::look::Point;
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
        Some(Point::new(cell.value(WAIT)?, cell.tops))
    };
    let levels = &page.summary.levels;
    let modes: Vec<_> = page.modes().collect();
    let all = modes.iter().flat_map(|(mode, _)| {
        let of_mode = levels.iter().filter_map(|&level| point(mode, level));
        of_mode.collect::<Vec<_>>()
    });
    let all: Vec<Point> = all.collect();
    let (_, most) = range(&all.iter().map(|point| point.x).collect::<Vec<_>>())?;
    let limit = page
        .limit(WAIT)
        .filter(|limit| *limit <= most * LIMIT_WITHIN);
    let waits: Vec<f64> = all.iter().map(|point| point.x).chain(limit).collect();
    let tops: Vec<f64> = all.iter().map(|point| point.y).collect();
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
            if let Some(point) = point(mode, level) {
                let (wait, tops) = (number(point.x), number(point.y));
                let says = format!("{mode} at {level}: {tops} tokens/s, TTFT p95 {wait} ms");
                chart.point(look, point, &says);
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
fn label(chart: &mut Chart, points: &[(u32, Point)]) {
    let placed = points
        .iter()
        .filter_map(|&(level, point)| Some((level, chart.place(point)?)));
    let placed: Vec<(u32, Point)> = placed.collect();
    let points = placed.iter().map(|&(_, centre)| Patch {
        centre,
        half: POINT,
    });
    let mut taken: Vec<Patch> = points.collect();
    for &(level, Point { x, y }) in &placed {
        let around = AROUND.iter().map(|(right, down)| Patch {
            centre: Point::new(x + right, y + down),
            half: LABEL,
        });
        let mut free = around.filter(|patch| patch.centre.y > 0.0);
        if let Some(patch) = free.find(|patch| !taken.iter().any(|other| patch.overlaps(other))) {
            taken.push(patch);
            let Point { x, y } = patch.centre;
            chart.words(Point::new(x, y + 4.0), "middle", &level.to_string());
        }
    }
}

/// What a label or a point covers.
#[derive(Clone, Copy, Debug)]
struct Patch {
    centre: Point,
    /// Half its width and half its height.
    half: (f64, f64),
}

impl Patch {
    fn overlaps(&self, other: &Self) -> bool {
        (self.centre.x - other.centre.x).abs() < self.half.0 + other.half.0
            && (self.centre.y - other.centre.y).abs() < self.half.1 + other.half.1
    }
}
