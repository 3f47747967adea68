//! What to be careful with: doubtful cells, and distances from published measurements.

use super::text::{MISSING, change, escape, label, number, points};
use super::{Page, table};
use stats::compare::{Comparison, Deviation};

pub(super) fn section(page: Page<'_>) -> String {
    let comparison = page.summary.comparison.as_ref();
    let comparison = comparison.map_or(String::new(), |found| compared(page, found));
    format!(
        "<section id=\"doubts\">\n<h2>Doubtful cells</h2>\n{}</section>\n{comparison}",
        guards(page)
    )
}

fn guards(page: Page<'_>) -> String {
    let rows = page.summary.cells.iter().flat_map(|cell| {
        let level = cell
            .concurrency
            .map_or(MISSING.to_owned(), |level| level.to_string());
        cell.guards.iter().map(move |guard| {
            format!(
                "<tr><th scope=\"row\">{level}</th><th scope=\"row\">{}</th>\
                 <td class=\"words\">{}</td><td class=\"words\">{}</td></tr>\n",
                super::tables::chip(page, &cell.mode),
                guard.kind.name(),
                escape(&guard.detail),
            )
        })
    });
    let rows: String = rows.collect();
    if rows.is_empty() {
        return "<p>None: no cell failed a check (errors, sample size, the load generator's own \
                lateness, the mode that was asked for, steady load, two counts of hits).</p>\n"
            .to_owned();
    }
    let head = "<tr><th scope=\"col\">at once</th><th scope=\"col\" class=\"left\">mode</th>\
                <th scope=\"col\" class=\"left\">doubt</th><th scope=\"col\" class=\"left\">why</th></tr>";
    table("Checks that did not pass", head, &rows)
}

fn compared(page: Page<'_>, comparison: &Comparison) -> String {
    let Some(first) = comparison.cells.first() else {
        return format!(
            "<section id=\"comparison\">\n<h2>Beside the measurements “{}”</h2>\n<p>They have none \
             of these modes and levels.</p>\n</section>\n",
            escape(comparison.measurements)
        );
    };
    let columns = first
        .figures
        .iter()
        .map(|figure| format!("<th scope=\"col\">{}</th>", escape(&label(figure.metric))));
    let head = format!(
        "<tr><th scope=\"col\">at once</th><th scope=\"col\" class=\"left\">mode</th>{}</tr>",
        columns.collect::<String>()
    );
    let rows = comparison.cells.iter().map(|cell| {
        format!(
            "<tr><th scope=\"row\">{}</th><th scope=\"row\">{}</th>{}</tr>\n",
            cell.concurrency,
            super::tables::chip(page, &cell.mode),
            cell.figures.iter().map(deviation).collect::<String>()
        )
    });
    let rows: String = rows.collect();
    let figures = comparison.cells.iter().flat_map(|cell| &cell.figures);
    let promised = figures.filter(|figure| figure.within.is_some()).count();
    let beyond = match comparison.beyond() {
        0 => format!("All {promised} figures with a tolerance are within it."),
        beyond => {
            format!("{beyond} of {promised} figures with a tolerance are beyond it, marked ▲.")
        }
    };
    format!(
        "<section id=\"comparison\">\n<h2>Beside the measurements “{}”</h2>\n<p>{beyond} Each field \
         has the figure of this sweep, the measurement, and how far off it is: in per cent of the \
         measurement, or in points for the hit rate. Figures without a tolerance are grey.</p>\n{}\
         </section>\n",
        escape(comparison.measurements),
        table("Deviations from measurements", &head, &rows)
    )
}

fn deviation(one: &Deviation) -> String {
    let (class, mark) = match one.within {
        Some(true) => ("", ""),
        Some(false) => (" class=\"over\"", "&#8239;▲"),
        None => (" class=\"unsure\"", ""),
    };
    let measured = number(one.measured);
    let Some((value, error)) = one.simulated.zip(one.error) else {
        return format!("<td{class}>{MISSING} / {measured}{mark}</td>");
    };
    let error = match one.metric.ends_with("_pct") {
        true => points(error),
        false => change(Some(error)),
    };
    format!(
        "<td{class}>{} / {measured}<br><small>{error}{mark}</small></td>",
        number(value)
    )
}
