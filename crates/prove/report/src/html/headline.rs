//! What came of it, in one screen: how much load each mode bears, what it gains, and where it
//! stops gaining.

use super::Page;
use super::text::{MISSING, change, escape, label_and_unit, list, number, optional, percent};
use stats::headline::Headline;
use stats::intervals::{Difference, NOT_ENOUGH_RUNS, Verdict};

const WATCHED: [&str; 2] = ["ttft_ms_p50", "ttft_ms_p95"];

pub(super) fn section(page: Page<'_>) -> String {
    let Some(headline) = &page.summary.headline else {
        return String::new();
    };
    let cards: String = page
        .modes()
        .map(|(mode, look)| card(page, headline, mode, &look.class()))
        .collect();
    format!(
        "<section id=\"headline\">\n<h2>Highest concurrency under the objectives</h2>\n\
         <p>Objectives: {}, and no request fails.</p>\n<div class=\"cards\">\n{cards}</div>\n{}\
         <h3>Where a mode stops being better</h3>\n{}</section>\n",
        escape(&objectives(headline)),
        gains(page, headline),
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
    match slo.unsure.get(mode) {
        Some(Some(unsure)) if unsure.is_empty() => {}
        Some(Some(unsure)) => {
            let unsure: Vec<String> = unsure.iter().map(u32::to_string).collect();
            notes.push(format!(
                "unsure at {}: an objective lies within the interval",
                list(&unsure)
            ));
        }
        Some(None) => notes.push(format!("{NOT_ENOUGH_RUNS} to say how sure that is")),
        None => {}
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

/// What each mode gains over the first: each at its own highest level, and at equal load.
fn gains(page: Page<'_>, headline: &Headline) -> String {
    let best = |mode: &str| {
        let level = headline.slo.highest.get(mode).copied().flatten()?;
        Some((level, page.cell(mode, level)?.tops))
    };
    let reference = best(page.first_mode()).filter(|(_, tops)| *tops > 0.0);
    let rows = page.modes().skip(1).map(|(mode, _)| {
        let under = best(mode).map_or(MISSING.to_owned(), |(level, tops)| {
            format!("{} tokens/s at {level}", number(tops))
        });
        let gain = best(mode).zip(reference);
        let gain = gain.map(|((_, tops), (_, reference))| 100.0 * (tops / reference - 1.0));
        format!(
            "<tr><th scope=\"row\">{}</th><td>{under}</td><td>{}</td>{}{}</tr>\n",
            super::tables::chip(page, mode),
            change(gain),
            largest(page, mode, "ttft_ms_p95"),
            largest(page, mode, "tops"),
        )
    });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return rows;
    }
    let first = page.first_mode();
    let own = reference.map_or(String::new(), |(level, tops)| {
        format!(", which makes {} tokens/s at {level}", number(tops))
    });
    let head = "<tr><td></td>\
         <th scope=\"colgroup\" colspan=\"2\">throughput under the objectives</th>\
         <th scope=\"colgroup\" colspan=\"2\">largest significant gain at equal load</th></tr>\n\
         <tr><th scope=\"col\">mode</th><th scope=\"col\">at its highest level</th>\
         <th scope=\"col\">change</th><th scope=\"col\">TTFT p95</th>\
         <th scope=\"col\">throughput</th></tr>";
    super::table(&format!("Gains over {first}{own}"), head, &rows)
}

/// The largest significant gain at one level.
fn largest(page: Page<'_>, mode: &str, figure: &str) -> String {
    let Some(best) = largest_gain(&page.summary.differences, mode, figure) else {
        let mut of_mode = page
            .summary
            .differences
            .iter()
            .filter(|one| one.mode == mode);
        let none = match of_mode.any(|one| one.verdict != Verdict::NotEnoughRuns) {
            true => "none",
            false => NOT_ENOUGH_RUNS,
        };
        return format!("<td class=\"unsure\">{none}</td>");
    };
    let (_, unit) = label_and_unit(figure);
    format!(
        "<td><b>{}</b> at {}<br><small>{} → {} {unit}</small></td>",
        change(best.change_pct),
        best.concurrency,
        number(best.reference),
        number(best.value),
    )
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
            "<li><b>{} from {}, {}.</b> {} {}</li>\n",
            escape(&one.mode),
            one.concurrency,
            escape(&label_and_unit(&one.figure).0),
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
    if !page.summary.has_verdicts() {
        return "There are not enough runs to tell.".to_owned();
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
