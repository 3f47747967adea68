//! How lines differ: by colour, by dashes and by the shape of their points.
//!
//! Colours are those of the style sheet, chosen to differ for colour-blind eyes on a light and
//! on a dark ground; who sees none of them still has the other two.

/// A place of a drawing, or values that have one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

impl Point {
    pub(super) const fn new(x: f64, y: f64) -> Self {
        Self { x, y }
    }
}

/// Colours in the style sheet.
pub(super) const COLOURS: usize = 8;
const DASHES: [&str; COLOURS] = [
    "",
    "7 4",
    "2.5 3.5",
    "10 4 2 4",
    "13 5",
    "4 3",
    "1.5 2.5",
    "9 3 2 3 2 3",
];

const PLUS: [(f64, f64); 12] = [
    (-0.5, -1.4),
    (0.5, -1.4),
    (0.5, -0.5),
    (1.4, -0.5),
    (1.4, 0.5),
    (0.5, 0.5),
    (0.5, 1.4),
    (-0.5, 1.4),
    (-0.5, 0.5),
    (-1.4, 0.5),
    (-1.4, -0.5),
    (-0.5, -0.5),
];
const CROSS: [(f64, f64); 12] = [
    (0.0, -0.6),
    (0.7, -1.3),
    (1.3, -0.7),
    (0.6, 0.0),
    (1.3, 0.7),
    (0.7, 1.3),
    (0.0, 0.6),
    (-0.7, 1.3),
    (-1.3, 0.7),
    (-0.6, 0.0),
    (-1.3, -0.7),
    (-0.7, -1.3),
];

/// The look of the mode or worker with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    number: usize,
    /// `m` for modes, `w` for workers: they have nothing to do with each other.
    family: char,
}

impl Look {
    pub(super) const fn mode(number: usize) -> Self {
        Self {
            number: number % COLOURS,
            family: 'm',
        }
    }

    pub(super) const fn worker(number: usize) -> Self {
        Self {
            number: number % COLOURS,
            family: 'w',
        }
    }

    /// The class that sets the colour.
    pub(super) fn class(self) -> String {
        format!("{}{}", self.family, self.number)
    }

    /// The attribute, with a space before it; a solid line has none.
    pub(super) fn dashes(self) -> String {
        match DASHES[self.number] {
            "" => String::new(),
            dashes => format!(" stroke-dasharray=\"{dashes}\""),
        }
    }

    /// The outline of a point; `size` is about its radius.
    pub(super) fn marker(self, Point { x, y }: Point, size: f64) -> String {
        let corners: &[(f64, f64)] = match self.number {
            1 => &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
            2 => &[(0.0, -1.2), (1.1, 0.85), (-1.1, 0.85)],
            3 => &[(0.0, -1.3), (1.1, 0.0), (0.0, 1.3), (-1.1, 0.0)],
            4 => &[(0.0, 1.2), (1.1, -0.85), (-1.1, -0.85)],
            5 => &PLUS,
            6 => &CROSS,
            7 => &[(-1.2, 0.0), (0.85, -1.1), (0.85, 1.1)],
            _ => {
                return format!(
                    "M{:.1} {y:.1}a{size:.1} {size:.1} 0 1 0 {:.1} 0a{size:.1} {size:.1} 0 1 0 -{:.1} 0z",
                    x - size,
                    2.0 * size,
                    2.0 * size,
                );
            }
        };
        let corners = corners
            .iter()
            .map(|(right, down)| format!("{:.1} {:.1}", x + right * size, y + down * size));
        format!("M{}z", corners.collect::<Vec<_>>().join("L"))
    }
}
