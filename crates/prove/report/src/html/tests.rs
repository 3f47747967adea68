//! The page as a whole: well formed, complete, and the same each time.

mod data;
mod parts;

use std::collections::BTreeSet;

use self::data::{NASTY, data, difference};
use super::html;
use crate::markdown::markdown;
use stats::compare::{CellComparison, Comparison, Deviation};
use stats::headline::Crossover;
use stats::intervals::Verdict;
use stats::slo::SloSummary;

/// Elements as they open and close; panics where they do not match.
#[track_caller]
fn check_tags(page: &str) -> Vec<String> {
    let (mut open, mut seen) = (Vec::new(), Vec::new());
    // A style sheet has no tags, but may have `>`.
    let style = page.find("<style>").unwrap() + 7..page.find("</style>").unwrap();
    let page = [&page[..style.start], &page[style.end..]].concat();
    let mut rest = page.strip_prefix("<!doctype html>").unwrap();
    while let Some(start) = rest.find('<') {
        assert!(
            !rest[..start].contains('>'),
            "a bare > in {}",
            &rest[..start]
        );
        let end = start + rest[start..].find('>').unwrap();
        let tag = &rest[start + 1..end];
        assert!(!tag.contains('<'), "a bare < in {tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of {tag}");
        let name = tag.trim_matches('/').split(' ').next().unwrap();
        match tag {
            _ if tag.starts_with('/') => {
                let opened: Option<String> = open.pop();
                assert_eq!(opened.as_deref(), Some(name), "closed in {rest:.200}");
            }
            _ if tag.ends_with('/') || name == "meta" || name == "br" => seen.push(tag.to_owned()),
            _ => {
                open.push(name.to_owned());
                seen.push(tag.to_owned());
            }
        }
        rest = &rest[end + 1..];
    }
    assert_eq!(open, Vec::<String>::new());
    seen
}

#[test]
fn a_page_is_well_formed_and_needs_nothing_else() {
    let page = html(&data());
    let tags = check_tags(&page);
    let mut ids = BTreeSet::new();
    for id in tags.iter().filter_map(|tag| tag.split(" id=\"").nth(1)) {
        let id = id.split('"').next().unwrap();
        assert!(ids.insert(id.to_owned()), "{id} twice");
    }
    assert!(ids.contains("figure-ttft-ms-p95"), "{ids:?}");
    for tag in &tags {
        let foreign = ["script", "link", "img", "iframe"];
        assert!(!foreign.contains(&tag.split(' ').next().unwrap()), "{tag}");
        assert!(!tag.contains("href") && !tag.contains("src="), "{tag}");
    }
    assert!(!page.contains("url(") && !page.contains("@import"));
    assert!(!page.contains("NaN"), "a number that is none");
}

#[test]
fn every_curve_has_its_points() {
    let page = html(&data());
    for says in [
        "round-robin at 60: 120 ms",
        "round-robin at 60: 240 ms, 95 % 228 to 264",
        "round-robin at 60: 40.0 ms",
        "round-robin at 60: 2060 tokens/s",
        "round-robin at 60: 88.8 % of prompt tokens",
    ] {
        assert!(page.contains(&format!("<title>{says}</title>")), "{says}");
    }
}

#[test]
fn equal_data_give_equal_bytes() {
    assert_eq!(html(&data()), html(&data()));
}

#[test]
fn names_are_text_and_never_markup() {
    let page = html(&data());
    assert!(!page.contains("<script"));
    assert!(page.contains("kv&quot;&lt;script&gt;&amp;&#39;"));
    assert!(page.contains("a&lt;b") && page.contains("&lt;not&gt; steady"));
    assert!(page.contains("homing sweep --modes &#39;a&#39; &gt; &quot;b&quot;"));
}

#[test]
fn a_simulation_says_so_in_every_figure() {
    let mut data = data();
    let page = html(&data);
    let figures = page.matches("<figure").count();
    assert_eq!(figures, 5 + 1 + 3 + 1);
    assert_eq!(
        page.matches("<figcaption><strong class=\"mark\">SIMULATED")
            .count(),
        figures
    );
    assert_eq!(page.matches("role=\"img\" aria-label=\"").count(), figures);
    assert!(page.contains("<p class=\"banner simulated\">"));
    assert!(page.contains("partial: 6 of 9 runs"));
    data.summary.about.simulated = false;
    data.summary.done = 9;
    let page = html(&data);
    assert!(!page.contains("SIMULATED") && !page.contains("partial:"));
}

#[test]
fn the_headline_tells_of_turning_points_or_that_there_are_none() {
    let mut data = data();
    assert!(html(&data).contains("no mode became worse than round-robin at any level"));
    data.summary
        .differences
        .insert(0, difference(NASTY, 40, Verdict::Worse));
    assert!(html(&data).contains("No mode stays worse than round-robin"));
    let crossover = Crossover {
        mode: "kv".to_owned(),
        against: "round-robin".to_owned(),
        figure: "ttft_ms_p50".to_owned(),
        concurrency: 120,
        better_until: Some(60),
        value: 3.0,
        reference: 2.0,
        analysis: "Because.".to_owned(),
    };
    let headline = data.summary.headline.as_mut().unwrap();
    headline.crossovers.push(crossover);
    let page = html(&data);
    assert!(page.contains("Because. It was better until 60."), "{page}");
    assert!(!page.contains("No mode stays worse"));
}

#[test]
fn where_runs_are_too_few_nothing_is_claimed() {
    let mut data = data();
    for cell in &mut data.summary.cells {
        (cell.runs, cell.intervals) = (1, [].into());
    }
    data.summary.differences = vec![difference(NASTY, 60, Verdict::NotEnoughRuns)];
    let headline = data.summary.headline.as_mut().unwrap();
    headline.slo = SloSummary::new(headline.slo.objectives.clone(), &data.summary.cells);
    let page = html(&data);
    check_tags(&page);
    for says in [
        "Not enough runs to say what is chance: 1 where 6 are needed",
        "There are not enough runs for intervals.",
        "There are not enough runs to tell.",
        "<td class=\"unsure\">not enough runs</td>",
        "not enough runs to say how sure that is",
    ] {
        assert!(page.contains(says), "{says}");
    }
    assert!(!page.contains("Bands are") && !page.contains("title=\"95 %"));
    let page = markdown(&data.summary);
    assert!(page.contains("| -50.0 % | not enough runs |"), "{page}");
    assert!(!page.contains("No mode has a significantly"), "{page}");
}

#[test]
fn deviations_beyond_a_tolerance_are_marked() {
    let mut data = data();
    let figure = |simulated, within| Deviation {
        metric: "kv_hit_pct",
        simulated,
        measured: 90.0,
        error: simulated.map(|value: f64| value - 90.0),
        within,
    };
    data.summary.comparison = Some(Comparison {
        measurements: "published",
        cells: vec![CellComparison {
            mode: "round-robin".to_owned(),
            concurrency: 60,
            figures: vec![
                figure(Some(80.0), Some(false)),
                figure(Some(91.0), Some(true)),
                figure(None, None),
            ],
        }],
    });
    let page = html(&data);
    check_tags(&page);
    assert!(page.contains("1 of 2 figures with a tolerance are beyond it"));
    assert!(page.contains("<td class=\"over\">80.0 / 90.0<br><small>−10.0 points&#8239;▲</small>"));
}

#[test]
fn a_page_of_nothing_is_a_page() {
    let mut data = data();
    data.timelines.clear();
    let summary = &mut data.summary;
    summary.headline = None;
    summary.differences.clear();
    summary.levels.clear();
    // A replay has no levels.
    for cell in &mut summary.cells {
        (cell.concurrency, cell.turns) = (None, Vec::new());
    }
    check_tags(&html(&data));
    data.summary.cells.clear();
    data.summary.modes.clear();
    check_tags(&html(&data));
}
