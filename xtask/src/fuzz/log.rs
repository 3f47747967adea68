//! What libFuzzer says about a run, read from its log.

/// The figures of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    runs: u64,
    /// Edges of the program that some input has taken.
    coverage: u64,
    /// `None` if a finding ended it early.
    seconds: Option<u64>,
}

impl Figures {
    pub(super) const HEAD: &str = "target                runs coverage  minutes  findings";

    /// `None` if there is no run in it.
    pub(super) fn read(log: &str) -> Option<Self> {
        let mut figures = None;
        for line in log.lines() {
            if let Some(progress) = progress(line) {
                let figures: &mut Self = figures.get_or_insert_default();
                (figures.runs, figures.coverage) = progress;
            } else if let Some((runs, seconds)) = done(line) {
                let figures = figures.get_or_insert_default();
                (figures.runs, figures.seconds) = (runs, Some(seconds));
            }
        }
        figures
    }

    pub(super) fn row(&self, target: &str, passed: bool) -> String {
        let minutes = self.seconds.map(|seconds| seconds as f64 / 60.0);
        let minutes = minutes.map_or("-".to_owned(), |minutes| format!("{minutes:.1}"));
        let Self { runs, coverage, .. } = self;
        let findings = if passed { "none" } else { "FOUND" };
        format!("{target:<15} {runs:>10} {coverage:>8} {minutes:>8}  {findings}")
    }
}

/// Runs and coverage from `#4096  NEW    cov: 310 ft: 1203 …`.
fn progress(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let runs = words.next()?.strip_prefix('#')?.parse().ok()?;
    words.find(|word| *word == "cov:")?;
    Some((runs, words.next()?.parse().ok()?))
}

/// Runs and seconds from `Done 4096 runs in 61 second(s)`.
fn done(line: &str) -> Option<(u64, u64)> {
    let (runs, rest) = line.strip_prefix("Done ")?.split_once(" runs in ")?;
    let seconds = rest.split(' ').next()?;
    Some((runs.parse().ok()?, seconds.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_end_of_a_log() {
        let log = "INFO: seed corpus: files: 3\n\
            #4\tINITED cov: 90 ft: 91 corp: 3/1Kb exec/s: 0 rss: 50Mb\n\
            #70\tNEW    cov: 120 ft: 130 corp: 4/1Kb lim: 9 exec/s: 0 rss: 50Mb\n\
            #99\tDONE   cov: 121 ft: 131 corp: 4/1Kb lim: 9 exec/s: 9 rss: 50Mb\n\
            Done 99 runs in 90 second(s)\n";
        let figures = Figures::read(log).unwrap();
        assert_eq!(
            figures,
            Figures {
                runs: 99,
                coverage: 121,
                seconds: Some(90)
            }
        );
        let row = figures.row("sse", true);
        assert_eq!(
            row.split_whitespace().collect::<Vec<_>>(),
            ["sse", "99", "121", "1.5", "none"]
        );
    }

    #[test]
    fn a_run_that_was_cut_short_has_no_end() {
        let log = "#70\tNEW    cov: 120 ft: 130 corp: 4/1Kb\npanicked at 'x'\n";
        let figures = Figures::read(log).unwrap();
        assert_eq!((figures.runs, figures.seconds), (70, None));
        assert!(figures.row("sse", false).ends_with("FOUND"));
        assert_eq!(Figures::read("error: could not compile"), None);
    }
}
