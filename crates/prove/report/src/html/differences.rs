//! Each mode against the first, level by level, with how sure it is.

use super::text::{MISSING, change, escape, label, number, points, signed};
use super::{Page, table};
use stats::intervals::{Difference, Verdict};

/// Shown at once; the others on request.
const MAIN: [&str; 6] = [
    "ttft_ms_p50",
    "ttft_ms_p95",
    "tpot_ms_p95",
    "e2e_s_p95",
    "tops",
    "kv_hit_pct",
];

pub(super) fn section(page: Page<'_>) -> String {
    if page.summary.differences.is_empty() {
        return String::new();
    }
    let modes = page.modes().map(|(mode, _)| mode).skip(1);
    let compared: String = modes.map(|mode| of_mode(page, mode)).collect();
    format!(
        "<section id=\"differences\">\n<h2>Against {}</h2>\n\
         <p>The interval is that of the difference itself, over pairs of runs with the same \
         conversations. The verdict is about all {} differences of this report together (Holm): \
         one may be not significant although its interval leaves 0 out.</p>\n\
         <div class=\"pair\">\n{compared}</div>\n</section>\n",
        escape(page.first_mode()),
        page.summary.differences.len(),
    )
}

fn of_mode(page: Page<'_>, mode: &str) -> String {
    let all = page
        .summary
        .differences
        .iter()
        .filter(|one| one.mode == mode);
    let all: Vec<&Difference> = all.collect();
    let Some(first) = all.first() else {
        return String::new();
    };
    let (main, others): (Vec<&Difference>, Vec<&Difference>) = all
        .iter()
        .partition(|one| MAIN.contains(&one.figure.as_str()));
    let caption = format!("{mode} against {}", first.against);
    let head = format!(
        "<tr><th scope=\"col\">at once</th><th scope=\"col\">{}</th><th scope=\"col\">{}</th>\
         <th scope=\"col\">change</th><th scope=\"col\">95 % interval</th>\
         <th scope=\"col\">verdict</th></tr>",
        escape(&first.against),
        escape(mode)
    );
    let mut text = table(&caption, &head, &groups(&main));
    if !others.is_empty() {
        let caption = format!("{caption}, other figures");
        text += &format!(
            "<details><summary>Other figures</summary>\n{}</details>\n",
            table(&caption, &head, &groups(&others))
        );
    }
    format!(
        "<div>\n<h3>{}</h3>\n{text}</div>\n",
        super::tables::chip(page, mode)
    )
}

/// Figure by figure, in the order in which they come.
fn groups(differences: &[&Difference]) -> String {
    let mut figures: Vec<&str> = Vec::new();
    for one in differences {
        if !figures.contains(&one.figure.as_str()) {
            figures.push(&one.figure);
        }
    }
    let mut body = String::new();
    for figure in figures {
        body += &format!(
            "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"6\">{}</th></tr>\n",
            escape(&label(figure))
        );
        let of_figure = differences.iter().filter(|one| one.figure == figure);
        body.extend(of_figure.map(|one| row(one)));
    }
    body
}

fn row(one: &Difference) -> String {
    let class = match one.verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::NotSignificant | Verdict::NotEnoughRuns => "unsure",
    };
    let interval = one.interval.map_or(MISSING.to_owned(), |interval| {
        format!("{} to {}", signed(interval.low), signed(interval.high))
    });
    let changed = match one.figure.ends_with("_pct") {
        true => points(one.difference),
        false => change(one.change_pct),
    };
    format!(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{changed}</td><td>{interval}</td>\
         <td class=\"{class}\">{}</td></tr>\n",
        one.concurrency,
        number(one.reference),
        number(one.value),
        one.verdict.name(),
    )
}
