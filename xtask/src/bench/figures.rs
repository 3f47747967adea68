//! What benchmarks print, and what they make of their samples.

#[expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]
pub(super) fn say(line: &str) {
    println!("{line}");
}

pub(super) fn best(figures: &[f64]) -> f64 {
    figures.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(super) fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
