//! What the queries of a dashboard have to be.

use promql_parser::label::Matcher;
use promql_parser::parser::{self, Expr, VectorSelector};
use promql_parser::util::{ExprVisitor, walk_expr};
use telemetry::{Kind, catalog};

use super::board::{Board, Target, substitute};
use super::walkthrough;

/// Over what a rate may be taken: what Grafana computes from the scrape interval, or the
/// whole time on screen.
const WINDOWS: [&str; 2] = ["$__rate_interval", "$__range"];

pub(super) fn problems(board: &Board) -> Vec<String> {
    board
        .targets()
        .flat_map(|target| {
            let found = check(board, target.expression());
            let prefix = target.place();
            found
                .into_iter()
                .map(move |problem| format!("{prefix}: {problem}"))
        })
        .chain(wrong_ways(board))
        .collect()
}

fn check(board: &Board, expression: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if !walkthrough::fixes(expression) {
        let free = windows(expression).filter(|window| !WINDOWS.contains(window));
        problems.extend(free.map(|window| format!("[{window}] instead of [$__rate_interval]")));
    }
    let plain = substitute(expression, |name| Some(stand_in(board, name)));
    match parser::parse(&plain) {
        Err(error) => problems.push(format!("not PromQL: {error}")),
        Ok(parsed) => problems.extend(check_selectors(board, &parsed)),
    }
    problems
}

/// Something of the right kind in the place of a variable.
fn stand_in(board: &Board, name: &str) -> String {
    let is_constant = board
        .variables()
        .any(|variable| variable["name"] == name && variable["type"] == "constant");
    match name {
        "__rate_interval" | "__range" => "1m".to_owned(),
        _ if is_constant => "1".to_owned(),
        // The parser compiles regular expressions, in which a dollar would be an anchor.
        _ => format!("VARIABLE_{name}"),
    }
}

/// What stands in the square brackets of a query.
fn windows(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split('[')
        .skip(1)
        .map(|after| after.split(']').next().unwrap_or_default())
}

fn check_selectors(board: &Board, parsed: &Expr) -> Vec<String> {
    let mut selectors = Selectors::default();
    let Ok(_) = walk_expr(&mut selectors, parsed);
    let mut problems = Vec::new();
    for (selector, over_time) in &selectors.0 {
        let name = selector.name.as_deref().unwrap_or_default();
        if is_counter(name) != *over_time {
            problems.push(match over_time {
                true => format!("`{name}` is no counter and has no rate"),
                false => format!("`{name}` only grows: take its rate"),
            });
        }
        let of_job = |matcher: &Matcher| matcher.name == "job" && matcher.value == "VARIABLE_job";
        if board.has_variable("job") && !selector.matchers.matchers.iter().any(of_job) {
            problems.push(format!("`{name}` is not limited to job=~\"$job\""));
        }
    }
    problems
}

/// Every selector of a query, and whether it is taken over a time.
#[derive(Default)]
struct Selectors(Vec<(VectorSelector, bool)>);

impl ExprVisitor for Selectors {
    type Error = std::convert::Infallible;

    fn pre_visit(&mut self, expression: &Expr) -> Result<bool, Self::Error> {
        if let Expr::VectorSelector(selector) = expression {
            self.0.push((selector.clone(), false));
        } else if let Expr::MatrixSelector(matrix) = expression {
            self.0.push((matrix.vs.clone(), true));
        }
        Ok(true)
    }
}

/// Series that are not in our catalogue. Their client library ends the names of counters alike.
const VLLM: &str = "vllm:";

/// Whether a series only ever grows.
fn is_counter(series: &str) -> bool {
    if series.starts_with(VLLM) {
        return series.ends_with("_total");
    }
    let parts = ["_bucket", "_sum", "_count"];
    catalog::all().iter().any(|metric| {
        let suffix = series.strip_prefix(metric.name);
        match metric.kind {
            // The one untyped family says in its help that it is a counter.
            Kind::Counter | Kind::Untyped => suffix == Some(""),
            Kind::Histogram | Kind::Summary => suffix.is_some_and(|s| parts.contains(&s)),
            Kind::Gauge => false,
        }
    })
}

/// A stat of the whole time on screen is asked once; everything else for every point.
fn wrong_ways(board: &Board) -> impl Iterator<Item = String> {
    let wrong = |target: &Target<'_>| {
        let once = target.expression().contains("$__range");
        target.json["instant"] != once || target.json["range"] == once
    };
    let problem = |target: Target<'_>| format!("{}: wrong `instant` or `range`", target.place());
    board.targets().filter(wrong).map(problem)
}
