//! What came of it, in one screen: how much load each mode bears, what it gains, and where it
//! stops gaining.

use super::Page;
use super::text::{change, escape, list, number, optional, percent};
use crate::bootstrap::{Difference, Verdict};
use crate::headline::Headline;

const WATCHED: [&str; 2] = ["ttft_ms_p50", "ttft_ms_p95"];

pub(super) fn section(page: Page<'_>) -> String {
    let Some(headline) = &page.summary.headline else {
        return String::new();
    };
    let cards: String = page
        .modes()
        .map(|(mode, look)| card(page, headline, mode, &look.class()))
        .collect();
    let said = [gains(page, headline), at_equal_load(page)].concat();
    let said: String = said
        .iter()
        .map(|one| format!("<li>{}</li>\n", escape(one)))
        .collect();
    let gains = match said.is_empty() {
        true => String::new(),
        false => format!("<ul class=\"gains\">\n{said}</ul>\n"),
    };
    format!(
        "<section id=\"headline\">\n<h2>Highest concurrency under the objectives</h2>\n\
         <p>Objectives: {}, and no request fails.</p>\n<div class=\"cards\">\n{cards}</div>\n{gains}\
         <h3>Where a mode stops being better</h3>\n{}</section>\n",
        escape(&objectives(headline)),
        crossovers(page, headline),
    )
}

fn objectives(headline: &Headline) -> String {
    let limits = headline.slo.objectives.limits_ms();
    let limits = limits.map(|(name, ms)| {
        let name = name.to_uppercase().replace("_P", " p");
        format!("{name} at most {} ms", super::text::short(ms))
    });
    list(&limits.collect::<Vec<_>>())
}

fn card(page: Page<'_>, headline: &Headline, mode: &str, class: &str) -> String {
    let slo = &headline.slo;
    let highest = slo.highest.get(mode).copied().flatten();
    let tried = slo.tried_up_to.get(mode).copied();
    let failed = slo.failed_below.get(mode).map_or(&[][..], Vec::as_slice);
    let figure = highest.map_or("none".to_owned(), |level| level.to_string());
    let mut notes = Vec::new();
    match (highest, tried) {
        (_, None) => notes.push("not run yet".to_owned()),
        (Some(highest), Some(tried)) if highest == tried => {
            notes.push(format!("the highest that was tried is {tried}"));
        }
        (_, Some(tried)) => notes.push(format!("tried up to {tried}")),
    }
    if !failed.is_empty() {
        let failed: Vec<String> = failed.iter().map(u32::to_string).collect();
        notes.push(format!("but not at {}", list(&failed)));
    }
    let cell = highest.and_then(|level| page.cell(mode, level));
    if let Some(cell) = cell.filter(|cell| cell.goodput_rps.is_some()) {
        notes.push(format!(
            "goodput {} requests/s, {} % of all",
            optional(cell.goodput_rps),
            percent(cell.goodput_pct)
        ));
    }
    let notes: String = notes
        .iter()
        .map(|note| format!("<p>{}</p>", escape(note)))
        .collect();
    let reference = if mode == page.first_mode() {
        " <small>reference</small>"
    } else {
        ""
    };
    format!(
        "<div class=\"card {class}\"><h3>{}{reference}</h3><p class=\"big\">{figure}</p>\
         <p class=\"unit\">conversations at once</p>{notes}</div>\n",
        escape(mode),
    )
}

/// Throughput of each mode at its own highest level against the first mode at its own.
fn gains(page: Page<'_>, headline: &Headline) -> Vec<String> {
    let best = |mode: &str| {
        let level = headline.slo.highest.get(mode).copied().flatten()?;
        Some((level, page.cell(mode, level)?.tops))
    };
    let Some((reference_level, reference)) = best(page.first_mode()) else {
        return Vec::new();
    };
    let others = page.modes().map(|(mode, _)| mode).skip(1);
    let gains = others.filter_map(|mode| {
        let (level, tops) = best(mode)?;
        let gain = (reference > 0.0).then(|| 100.0 * (tops / reference - 1.0));
        Some(format!(
            "Under the objectives, {mode} makes {} tokens/s (at {level}), {} against {} with {} \
             (at {reference_level}).",
            number(tops),
            change(gain),
            number(reference),
            page.first_mode(),
        ))
    });
    gains.collect()
}

/// The largest significant gains at one level.
fn at_equal_load(page: Page<'_>) -> Vec<String> {
    let watched = [
        ("ttft_ms_p95", "TTFT p95", "ms"),
        ("tops", "throughput", "tokens/s"),
    ];
    let modes = page.modes().map(|(mode, _)| mode).skip(1);
    let said = modes.flat_map(|mode| {
        watched.iter().filter_map(move |&(figure, name, unit)| {
            let best = largest_gain(&page.summary.differences, mode, figure)?;
            Some(format!(
                "At equal load, the largest significant gain of {mode} in {name} is {} at {}: \
                 {} against {} {unit} with {}.",
                change(best.change_pct),
                best.concurrency,
                number(best.value),
                number(best.reference),
                best.against,
            ))
        })
    });
    said.collect()
}

fn largest_gain<'a>(all: &'a [Difference], mode: &str, figure: &str) -> Option<&'a Difference> {
    let of_figure = all
        .iter()
        .filter(|one| one.mode == mode && one.figure == figure);
    let better = of_figure.filter(|one| one.verdict == Verdict::Better);
    let size = |one: &Difference| one.change_pct.unwrap_or(0.0).abs();
    better.reduce(|best, one| if size(one) > size(best) { one } else { best })
}

fn crossovers(page: Page<'_>, headline: &Headline) -> String {
    let found = headline.crossovers.iter().map(|one| {
        let before = match one.better_until {
            Some(level) => format!("It was better until {level}."),
            None => "It was better at no lower level.".to_owned(),
        };
        format!(
            "<li><b>{} from {}</b>, {} ({} against {}). {} {}</li>\n",
            escape(&one.mode),
            one.concurrency,
            escape(&super::text::label(&one.figure)),
            number(one.value),
            number(one.reference),
            escape(&one.analysis),
            escape(&before),
        )
    });
    let found: String = found.collect();
    if !found.is_empty() {
        return format!("<ul class=\"crossovers\">\n{found}</ul>\n");
    }
    format!("<p>{}</p>\n", escape(&no_crossover(page)))
}

fn no_crossover(page: Page<'_>) -> String {
    let differences = &page.summary.differences;
    if differences.is_empty() {
        return "There is nothing to compare yet.".to_owned();
    }
    let watched = |one: &&Difference| WATCHED.contains(&one.figure.as_str());
    let worse = differences
        .iter()
        .filter(watched)
        .filter(|one| one.verdict == Verdict::Worse);
    let mut worse: Vec<String> = worse
        .map(|one| format!("{} at {}", one.mode, one.concurrency))
        .collect();
    worse.dedup();
    let first = page.first_mode();
    match worse.is_empty() {
        true => format!(
            "Nowhere: no mode became worse than {first} at any level. No difference in TTFT p50 \
             or p95 speaks significantly for {first}."
        ),
        false => format!(
            "No mode stays worse than {first} up to the highest level. TTFT p50 or p95 was \
             significantly longer with {}.",
            list(&worse)
        ),
    }
}
