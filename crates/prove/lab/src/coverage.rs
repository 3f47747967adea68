//! How often intervals hold the truth, counted over many sweeps.
//!
//! A 95 % interval is a promise about sweeps that nobody runs. Here they are run: a large pool
//! of runs of each cell, each with a seed of its own, shuffled and dealt into sweeps of as many
//! repeats as are asked about, again and again. The truth is what the whole pool comes to, and
//! every sweep's own interval is held against it. Differences are looked at in the same way,
//! and so are verdicts: how often one says the opposite of what is true.

use std::fmt;

use contract::random::{Random, mix};

use crate::cell::run_cell;
use crate::grid::{Job, NEVER, Pace, SweepPlan, run_all};
use crate::meter::metered;
use stats::figures::RunFigures;
use stats::intervals::{
    Difference, FIGURES, Interval, Intervals, Level, Row, Verdict, intervals, judge, medians,
    names, row,
};

/// What is shown: those that people quote.
const SHOWN: [(&str, &str); 8] = [
    ("ttft_ms_p50", "TTFT p50"),
    ("ttft_ms_p95", "TTFT p95"),
    ("ttft_ms_p99", "TTFT p99"),
    ("tpot_ms_p50", "TPOT p50"),
    ("tpot_ms_p95", "TPOT p95"),
    ("e2e_s_p95", "E2E p95"),
    ("tops", "tok/s"),
    ("kv_hit_pct", "hit %"),
];

/// How often the pool is dealt. Deals of one pool are no independent sweeps, but many tell more
/// than one.
const DEALS: u64 = 25;
const SHUFFLE: u64 = 0xdea1;

/// What came of sweeps of one size.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Coverage {
    pub sweeps: usize,
    pub repeats: usize,
    /// Modes by level, then each mode against the first.
    pub cells: Vec<Covered>,
    /// Differences of all sweeps, those of them called better or worse, and those of these
    /// that say the opposite of what is true.
    pub compared: usize,
    pub verdicts: usize,
    pub opposite: usize,
}

/// One mode at one level, or its difference to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Covered {
    pub name: String,
    /// In the order of a report.
    pub figures: Vec<CoveredFigure>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CoveredFigure {
    pub figure: String,
    pub truth: f64,
    /// Sweeps that gave an interval, and those of them whose interval held the truth.
    pub given: usize,
    pub held: usize,
}

impl CoveredFigure {
    fn new<'a>(
        figure: &str,
        truth: f64,
        intervals: impl Iterator<Item = Option<&'a Interval>>,
    ) -> Self {
        let (mut given, mut held) = (0, 0);
        for Interval { low, high } in intervals.flatten() {
            given += 1;
            held += usize::from(*low <= truth && truth <= *high);
        }
        Self {
            figure: figure.to_owned(),
            truth,
            given,
            held,
        }
    }
}

/// What every run of a plan came to, by level and mode.
#[derive(Clone, Debug)]
pub struct Drawn {
    levels: Vec<u32>,
    modes: Vec<String>,
    runs: Vec<Vec<Vec<Row>>>,
}

/// Makes all runs of a plan.
pub fn draw(plan: &SweepPlan, threads: Option<usize>) -> Drawn {
    let names = plan.modes.iter().map(|mode| mode.name().to_owned());
    Drawn {
        levels: plan.levels.clone(),
        modes: names.collect(),
        runs: metered(threads, &NEVER, |pace| (run(plan, pace), Vec::new())),
    }
}

fn run(plan: &SweepPlan, pace: &Pace<'_>) -> Vec<Vec<Vec<Row>>> {
    let cells = plan
        .levels
        .iter()
        .flat_map(|&level| plan.modes.iter().map(move |&mode| (level, mode)));
    let jobs: Vec<_> = cells
        .flat_map(|(level, mode)| {
            (1..=plan.repeats).map(move |repeat| Job {
                label: format!("{} at {level}, run {repeat}", mode.name()),
                weight: f64::from(level),
                run: move || row(&RunFigures::of(&run_cell(&plan.cell(mode, level, repeat)))),
            })
        })
        .collect();
    let all = run_all(&jobs, pace);
    let cells: Vec<Vec<Row>> = all
        .chunks(plan.repeats.max(1) as usize)
        .map(<[Row]>::to_vec)
        .collect();
    let levels = cells.chunks(plan.modes.len().max(1));
    levels.map(<[Vec<Row>]>::to_vec).collect()
}

impl Drawn {
    /// Deals the runs into sweeps of so many repeats.
    pub fn coverage(&self, repeats: usize) -> Coverage {
        let names: Vec<&str> = self.modes.iter().map(String::as_str).collect();
        let pool = self.runs.first().and_then(|modes| modes.first());
        let hands = hands(pool.map_or(0, Vec::len), repeats);
        let sweeps = hands.len();
        let mut found = Coverage {
            sweeps,
            repeats,
            ..Coverage::default()
        };
        let mut judged: Vec<Vec<Difference>> = vec![Vec::new(); sweeps];
        let mut truths: Vec<Difference> = Vec::new();
        for (&concurrency, modes) in self.levels.iter().zip(&self.runs) {
            for (name, runs) in names.iter().zip(modes) {
                found.cells.push(Covered {
                    name: format!("{name} {concurrency}"),
                    figures: figures(runs, &hands),
                });
            }
            let of_level = Level::of(modes).against_first(concurrency, &names);
            for (hand, judged) in hands.iter().zip(&mut judged) {
                let dealt: Vec<_> = modes.iter().map(|runs| taken(runs, hand)).collect();
                judged.extend(Level::of(&dealt).against_first(concurrency, &names));
            }
            found.cells.extend(differences(&of_level, &judged));
            truths.extend(of_level);
        }
        for report in &mut judged {
            judge(report);
            for one in report.iter() {
                let truth = truths.iter().find(|truth| is_same(truth, one));
                let is_told = matches!(one.verdict, Verdict::Better | Verdict::Worse);
                let is_opposite =
                    truth.is_some_and(|truth| truth.difference * one.difference <= 0.0);
                found.compared += 1;
                found.verdicts += usize::from(is_told);
                found.opposite += usize::from(is_told && is_opposite);
            }
        }
        found
    }

    /// From such lines.
    pub fn parse(csv: &str) -> Option<Self> {
        let mut drawn = Self {
            levels: Vec::new(),
            modes: Vec::new(),
            runs: Vec::new(),
        };
        let names: Vec<String> = names().collect();
        for line in csv.lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let [level, mode, run, figure, value] = fields.try_into().ok()?;
            let level = place(&mut drawn.levels, level.parse().ok()?);
            let mode = place(&mut drawn.modes, mode.to_owned());
            let run = run.parse::<usize>().ok()?.checked_sub(1)?;
            let figure = names.iter().position(|name| name == figure)?;
            let modes = at_least(&mut drawn.runs, level, Vec::new());
            let runs = at_least(modes, mode, Vec::new());
            at_least(runs, run, [f64::NAN; FIGURES])[figure] = value.parse().ok()?;
        }
        let mut pools = drawn.runs.iter().flatten().map(Vec::len);
        let is_even = pools
            .next()
            .is_none_or(|first| pools.all(|pool| pool == first));
        let is_whole = drawn
            .runs
            .iter()
            .all(|modes| modes.len() == drawn.modes.len());
        (is_even && is_whole).then_some(drawn)
    }

    /// A line per run and figure, for analyses of one's own.
    pub fn csv(&self) -> String {
        let mut csv = String::from("concurrency,mode,run,figure,value\n");
        for (level, modes) in self.levels.iter().zip(&self.runs) {
            for (mode, runs) in self.modes.iter().zip(modes) {
                for (number, run) in (1..).zip(runs) {
                    for (figure, value) in names().zip(run) {
                        csv += &format!("{level},{mode},{number},{figure},{value}\n");
                    }
                }
            }
        }
        csv
    }
}

/// Where a value stands in a list, after it was put there if need be.
fn place<T: PartialEq>(list: &mut Vec<T>, value: T) -> usize {
    let found = list.iter().position(|known| *known == value);
    found.unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

/// What is at a place, after the list was made long enough.
fn at_least<T: Clone>(list: &mut Vec<T>, place: usize, empty: T) -> &mut T {
    if list.len() <= place {
        list.resize(place + 1, empty);
    }
    &mut list[place]
}

/// The runs of every sweep, by their places in the pool: the same in all modes and levels, as
/// in a sweep.
fn hands(pool: usize, repeats: usize) -> Vec<Vec<usize>> {
    let deals = (0..DEALS).flat_map(|deal| {
        let mut order: Vec<usize> = (0..pool).collect();
        let mut random = Random::new(mix(deal, SHUFFLE, pool as u64));
        for last in (1..pool).rev() {
            order.swap(last, random.below(last + 1));
        }
        let hands = order.chunks_exact(repeats.max(1)).map(<[usize]>::to_vec);
        hands.collect::<Vec<_>>()
    });
    deals.collect()
}

fn taken(runs: &[Row], hand: &[usize]) -> Vec<Row> {
    hand.iter().map(|&place| runs[place]).collect()
}

/// Of one mode at one level.
fn figures(runs: &[Row], hands: &[Vec<usize>]) -> Vec<CoveredFigure> {
    let sweeps = hands.iter().map(|hand| intervals(&taken(runs, hand)));
    let given: Vec<Intervals> = sweeps.collect();
    let figures = medians(runs).into_iter().map(|(figure, truth)| {
        let intervals = given.iter().map(|one| one.get(&figure));
        CoveredFigure::new(&figure, truth, intervals)
    });
    figures.collect()
}

fn is_same(one: &Difference, other: &Difference) -> bool {
    (one.concurrency, &one.mode, &one.figure) == (other.concurrency, &other.mode, &other.figure)
}

/// Each mode's differences to the first, by mode.
fn differences(truths: &[Difference], reports: &[Vec<Difference>]) -> Vec<Covered> {
    let mut covered: Vec<Covered> = Vec::new();
    for truth in truths {
        let name = format!("{} − {} {}", truth.mode, truth.against, truth.concurrency);
        let found = reports.iter().filter_map(|report| {
            let mut report = report.iter();
            report.find(|one| is_same(one, truth))
        });
        let figure = CoveredFigure::new(
            &truth.figure,
            truth.difference,
            found.map(|one| one.interval.as_ref()),
        );
        match covered.last_mut().filter(|last| last.name == name) {
            Some(last) => last.figures.push(figure),
            None => covered.push(Covered {
                name,
                figures: vec![figure],
            }),
        }
    }
    covered
}

impl fmt::Display for Coverage {
    /// A table in Markdown: in how many of a hundred sweeps the interval held the truth.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| cell |")?;
        for (_, heading) in SHOWN {
            write!(f, " {heading} |")?;
        }
        writeln!(f, "\n|---|{}", "---:|".repeat(SHOWN.len()))?;
        for cell in &self.cells {
            write!(f, "| {} |", cell.name)?;
            for (name, _) in SHOWN {
                let mut figures = cell.figures.iter();
                match figures.find(|one| one.figure == name && one.given > 0) {
                    Some(one) => {
                        let share = 100.0 * one.held as f64 / one.given as f64;
                        write!(f, " {share:.1} |")?;
                    }
                    None => write!(f, " – |")?,
                }
            }
            writeln!(f)?;
        }
        let all = self.cells.iter().flat_map(|cell| &cell.figures);
        let shares = all
            .filter(|one| one.given > 0)
            .map(|one| 100.0 * one.held as f64 / one.given as f64);
        let (least, most) = shares.fold((100.0_f64, 0.0_f64), |(least, most), share| {
            (least.min(share), most.max(share))
        });
        writeln!(
            f,
            "\n{} sweeps of {} run(s) of each cell, dealt from one pool; over all figures of a report, those not shown \
             included, {least:.1} to {most:.1} %.",
            self.sweeps, self.repeats
        )?;
        writeln!(
            f,
            "Of {} differences, {} were called better or worse, {} of them the opposite of what is true.",
            self.compared, self.verdicts, self.opposite
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::figures::Figures;

    /// Runs that are slow or fast as a whole, and a mode that is some 100 ms slower.
    fn drawn(runs: u64) -> Drawn {
        let figures = |value| Figures {
            p50: Some(value),
            p90: Some(value),
            p95: Some(value),
            p99: Some(value),
        };
        let of_mode = |slower: f64| {
            let of_run = |run: u64| {
                row(&RunFigures {
                    ttft_ms: figures(
                        500.0
                            + 100.0 * Random::new(mix(run, 1, 2)).unit()
                            + slower * (0.95 + 0.1 * Random::new(mix(run, 1, 3)).unit()),
                    ),
                    ..RunFigures::default()
                })
            };
            (0..runs).map(of_run).collect()
        };
        Drawn {
            levels: vec![60],
            modes: vec!["one".to_owned(), "other".to_owned()],
            runs: vec![vec![of_mode(0.0), of_mode(100.0)]],
        }
    }

    #[test]
    fn every_deal_gives_every_run_once() {
        let hands = hands(13, 4);
        assert_eq!(hands.len(), 3 * DEALS as usize);
        for deal in hands.chunks(3) {
            let mut all = deal.concat();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 12);
        }
    }

    #[test]
    fn intervals_over_runs_are_counted_as_what_they_are() {
        let found = drawn(240).coverage(6);
        assert_eq!((found.repeats, found.sweeps), (6, 40 * DEALS as usize));
        assert_eq!(found.cells.len(), 3);
        for cell in &found.cells {
            let figure = &cell.figures[0];
            let share = figure.held as f64 / figure.given as f64;
            assert!((0.94..=0.99).contains(&share), "{}: {share}", cell.name);
        }
        // The difference is in every run, and is found in every sweep.
        assert_eq!((found.verdicts, found.opposite), (4 * found.sweeps, 0));
        let table = found.to_string();
        assert!(table.starts_with("| cell | TTFT p50 |"), "{table}");
        assert!(table.contains("\n| other − one 60 | 9"), "{table}");
    }

    #[test]
    fn what_is_written_is_read() {
        let drawn = drawn(12);
        let csv = drawn.csv();
        let read = Drawn::parse(&csv).unwrap();
        assert_eq!((&read.levels, &read.modes), (&drawn.levels, &drawn.modes));
        assert_eq!(read.csv(), csv);
        assert!(Drawn::parse("head\n60,one,1,ttft_ms_p50").is_none());
        assert!(Drawn::parse("head\n60,one,1,ttft_ms_p50,1\n60,other,2,rps,1").is_none());
    }

    #[test]
    fn too_few_repeats_have_no_interval_to_count() {
        let found = drawn(40).coverage(5);
        let figures = found.cells.iter().flat_map(|cell| &cell.figures);
        assert!(figures.map(|figure| figure.given).all(|given| given == 0));
        assert_eq!(found.verdicts, 0);
    }
}
