//! Drawing with axes, as SVG.
//!
//! A chart is made with its axes and then filled in values: bands, lines, points, limits. What
//! has no place (a missing value, 0 on a logarithmic axis) leaves a gap. A drawing carries its
//! title, its legend and the mark of a simulation, since it may be cut out and shown elsewhere.

use super::axis::Axis;
use super::look::{Look, Point};
use super::text::{escape, short};

/// In the units of the drawing. The page scales it, and enlarges the text on narrow screens;
/// margins leave room for that.
pub(super) const WIDTH: f64 = 560.0;
const PLOT_HEIGHT: f64 = 240.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = WIDTH - 22.0;
const TITLE: f64 = 40.0;
const LEGEND_ROW: f64 = 24.0;
const BELOW: f64 = 56.0;
/// Of a letter in the enlarged text.
const LETTER: f64 = 9.5;
const SAMPLE: f64 = 34.0;

#[derive(Clone, Debug)]
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) x_label: String,
    pub(super) legend: Vec<(String, Look)>,
    pub(super) is_simulated: bool,
    marks: String,
}

impl Chart {
    pub(super) fn new(title: &str, x: Axis, y: Axis, x_label: &str) -> Self {
        Self {
            title: title.to_owned(),
            x,
            y,
            x_label: x_label.to_owned(),
            legend: Vec::new(),
            is_simulated: false,
            marks: String::new(),
        }
    }

    /// Where a point is drawn, below the top of the plot.
    pub(super) fn place(&self, point: Point) -> Option<Point> {
        Some(Point::new(
            LEFT + self.x.place(point.x)? * (RIGHT - LEFT),
            PLOT_HEIGHT * (1.0 - self.y.place(point.y)?),
        ))
    }

    /// Between a low and a high value at each place.
    pub(super) fn band(&mut self, look: Look, points: &[Option<(f64, f64, f64)>]) {
        let ends = points.iter().map(|point| {
            let (x, low, high) = (*point)?;
            let place = |y| self.place(Point::new(x, y));
            place(low).zip(place(high))
        });
        let ends: Vec<_> = ends.collect();
        for run in runs(&ends) {
            let there = run.iter().map(|(_, high)| *high);
            let back = run.iter().rev().map(|(low, _)| *low);
            let outline: Vec<_> = there.chain(back).collect();
            let (path, class) = (path(&outline), look.class());
            self.marks += &format!("<path class=\"band {class}\" d=\"{path}z\"/>");
        }
    }

    pub(super) fn line(&mut self, look: Look, points: &[Option<Point>]) {
        let places = points.iter().map(|point| self.place((*point)?));
        let places: Vec<_> = places.collect();
        for run in runs(&places).iter().filter(|run| run.len() > 1) {
            let (path, class, dashes) = (path(run), look.class(), look.dashes());
            self.marks += &format!("<path class=\"line {class}\"{dashes} d=\"{path}\"/>");
        }
    }

    /// For lines of many points.
    pub(super) fn thin_line(&mut self, look: Look, points: &[Option<Point>]) {
        self.marks += "<g class=\"thin\">";
        self.line(look, points);
        self.marks += "</g>";
    }

    /// From one place to another, without meaning of its own.
    pub(super) fn whisker(&mut self, look: Look, from: Point, to: Point) {
        if let (Some(from), Some(to)) = (self.place(from), self.place(to)) {
            let (path, class) = (path(&[from, to]), look.class());
            self.marks += &format!("<path class=\"whisker {class}\" d=\"{path}\"/>");
        }
    }

    /// A point that says what it is to a pointer that rests on it.
    pub(super) fn point(&mut self, look: Look, point: Point, says: &str) {
        if let Some(place) = self.place(point) {
            let (path, class) = (look.marker(place, 4.2), look.class());
            let says = escape(says);
            self.marks +=
                &format!("<path class=\"point {class}\" d=\"{path}\"><title>{says}</title></path>");
        }
    }

    /// Words beside a place; `anchor` is `start`, `middle` or `end`.
    pub(super) fn words(&mut self, at: Point, anchor: &str, words: &str) {
        let (Point { x, y }, words) = (at, escape(words));
        self.marks += &format!(
            "<text class=\"note\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
        );
    }

    /// A level that is not to be exceeded.
    pub(super) fn limit_y(&mut self, value: f64, words: &str) {
        if let Some(share) = self.y.place(value) {
            let y = PLOT_HEIGHT * (1.0 - share);
            // At the top it would run into the legend.
            let beside = if share > 0.93 { 15.0 } else { -5.0 };
            self.marks += &format!(
                "<path class=\"limit\" d=\"M{LEFT:.1} {y:.1}H{RIGHT:.1}\"/>\
                 <text class=\"limit-label\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT + 6.0,
                y + beside,
                escape(words),
            );
        }
    }

    pub(super) fn limit_x(&mut self, value: f64, words: &str) {
        if let Some(share) = self.x.place(value) {
            let x = LEFT + share * (RIGHT - LEFT);
            let (anchor, aside) = if share > 0.5 {
                ("end", -6.0)
            } else {
                ("start", 6.0)
            };
            self.marks += &format!(
                "<path class=\"limit\" d=\"M{x:.1} 0V{PLOT_HEIGHT:.1}\"/>\
                 <text class=\"limit-label\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                x + aside,
                PLOT_HEIGHT - 8.0,
                escape(words),
            );
        }
    }

    /// The drawing; `says` is for those who cannot see it.
    pub(super) fn svg(&self, says: &str) -> String {
        let (legend, rows) = self.legend();
        let top = TITLE + rows * LEGEND_ROW;
        let simulated = match self.is_simulated {
            true => format!(
                "<text class=\"simulated\" x=\"{RIGHT:.1}\" y=\"20\" text-anchor=\"end\">SIMULATED</text>"
            ),
            false => String::new(),
        };
        format!(
            "<svg viewBox=\"0 0 {WIDTH:.0} {:.0}\" role=\"img\" aria-label=\"{}\">\
             <text class=\"title\" x=\"4\" y=\"20\">{}</text>{simulated}{legend}\
             <g transform=\"translate(0 {top:.0})\">{}{}</g></svg>",
            top + PLOT_HEIGHT + BELOW,
            escape(says),
            escape(&self.title),
            self.grid(),
            self.marks,
        )
    }

    fn grid(&self) -> String {
        let mut grid = String::new();
        for &tick in &self.y.ticks {
            let y = PLOT_HEIGHT * (1.0 - self.y.place(tick).unwrap_or(0.0));
            grid += &format!(
                "<path class=\"grid\" d=\"M{LEFT:.1} {y:.1}H{RIGHT:.1}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.5,
                short(tick),
            );
        }
        for &tick in &self.x.ticks {
            let x = LEFT + self.x.place(tick).unwrap_or(0.0) * (RIGHT - LEFT);
            grid += &format!(
                "<path class=\"axis\" d=\"M{x:.1} {PLOT_HEIGHT:.1}v5\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                PLOT_HEIGHT + 21.0,
                short(tick),
            );
        }
        format!(
            "{grid}<path class=\"axis\" d=\"M{LEFT:.1} {PLOT_HEIGHT:.1}H{RIGHT:.1}\"/>\
             <text class=\"name\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            (LEFT + RIGHT) / 2.0,
            PLOT_HEIGHT + 45.0,
            escape(&self.x_label),
        )
    }

    /// With the number of its rows.
    fn legend(&self) -> (String, f64) {
        let (mut legend, mut x, mut row) = (String::new(), 4.0, 0.0);
        for (name, look) in &self.legend {
            let width = SAMPLE + 8.0 + name.chars().count() as f64 * LETTER + 14.0;
            if x > 4.0 && x + width > WIDTH {
                (x, row) = (4.0, row + 1.0);
            }
            let y = TITLE + row * LEGEND_ROW + 2.0;
            let (class, dashes) = (look.class(), look.dashes());
            let middle = look.marker(Point::new(x + SAMPLE / 2.0, y), 4.2);
            legend += &format!(
                "<path class=\"line {class}\"{dashes} d=\"M{x:.1} {y:.1}h{SAMPLE:.0}\"/>\
                 <path class=\"point {class}\" d=\"{middle}\"/>\
                 <text class=\"key\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + SAMPLE + 7.0,
                y + 4.5,
                escape(name),
            );
            x += width;
        }
        let rows = if self.legend.is_empty() {
            0.0
        } else {
            row + 1.0
        };
        (legend, rows)
    }
}

/// Neighbours without a gap between them.
pub(super) fn runs<T: Copy>(values: &[Option<T>]) -> Vec<Vec<T>> {
    let runs = values.split(Option::is_none);
    let runs = runs.map(|run| run.iter().copied().flatten().collect());
    runs.filter(|run: &Vec<T>| !run.is_empty()).collect()
}

fn path(places: &[Point]) -> String {
    let corners = places.iter().map(|Point { x, y }| format!("{x:.1} {y:.1}"));
    format!("M{}", corners.collect::<Vec<_>>().join("L"))
}
