//! The console's interface in TypeScript, for its pages.
//!
//! Generated from the types that are serialised, so that a page that reads a field which does
//! not exist fails its type check. Comments come along. `cargo xtask codegen` has the test below
//! write the file.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};

use loadgen::baseline::Baseline;
use loadgen::log::Conversation;
use openai::ErrorBody;
use router::{Candidate, Decision, Terms};
use ts_rs::{Config, TS, TypeVisitor};

use crate::conversations::ConversationList;
use crate::dashboards::DashboardList;
use crate::history::History;
use crate::state::State;

const HEADER: &str = "// Generated from Rust by `cargo xtask codegen`: change the types there.\n";

/// What no single Rust type says. A candidate's cost has its terms beside it where it is time,
/// which is more than a derived type can tell; the server's timing is made field by field and
/// passed on as it came.
const OTHERS: [(&str, &str); 2] = [
    (
        "Candidate",
        "/** A candidate of a routing decision. The terms of its cost exist only in mode `kv`. */
export type Candidate = CandidateFigures & Partial<Terms>;
",
    ),
    (
        "ServerTiming",
        "/** The server's own timing as it came; ours has these fields. */
export type ServerTiming = { ttft_ms?: number, prefill_wait_time_ms?: number, prefill_time_ms?: number, total_time_ms?: number, itl_ms?: number, kv_hit_rate?: number, };
",
    ),
];

/// All types that a page reads, by name: the order in which they depend on each other is not
/// the same from build to build.
pub(crate) fn typescript() -> String {
    // Numbers here stay far below 2^53.
    let config = Config::new().with_large_int("number");
    let mut page = Page {
        config,
        seen: BTreeSet::new(),
        declared: OTHERS
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into(),
    };
    page.visit::<State>();
    page.visit::<Decision>();
    page.visit::<Candidate>();
    page.visit::<Terms>();
    page.visit::<History>();
    page.visit::<Baseline>();
    page.visit::<ConversationList>();
    page.visit::<Conversation>();
    page.visit::<DashboardList>();
    page.visit::<ErrorBody>();
    let mut text = HEADER.to_owned();
    for declaration in page.declared.values() {
        text.push('\n');
        text.push_str(declaration);
    }
    text
}

struct Page {
    config: Config,
    seen: BTreeSet<TypeId>,
    declared: BTreeMap<String, String>,
}

impl TypeVisitor for Page {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        if !self.seen.insert(TypeId::of::<T>()) {
            return;
        }
        T::visit_dependencies(self);
        T::visit_generics(self);
        // Only types of our own have a place; numbers and lists are the language's.
        if T::output_path().is_some() {
            let docs = T::docs().unwrap_or_default();
            let declaration = format!("export {}", T::decl(&self.config));
            let mut text = String::new();
            write(&mut text, &docs, "");
            write(&mut text, &declaration, "  ");
            self.declared.insert(T::ident(&self.config), text);
        }
    }
}

/// Adds lines, the second and later ones with an indent, and comments of one line as one line.
fn write(text: &mut String, lines: &str, indent: &str) {
    let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
    let mut rest = lines.as_slice();
    let mut is_first = true;
    while let Some((&first, mut after)) = rest.split_first() {
        text.push_str(if is_first { "" } else { indent });
        match (first, after) {
            ("/**", [comment, " */", others @ ..]) => {
                text.push_str(&format!("/**{} */", comment.trim_start_matches(" *")));
                after = others;
            }
            _ => text.push_str(first),
        }
        text.push('\n');
        (rest, is_first) = (after, false);
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::*;

    #[test]
    fn the_types_of_pages_are_fresh() {
        expect_file!["../../../../ui/src/api/types.ts"].assert_eq(&typescript());
    }

    #[test]
    fn what_a_page_reads_is_declared_once_each() {
        let text = typescript();
        for declared in [
            "State",
            "Snapshot",
            "Decision",
            "Candidate",
            "RequestRecord",
            "Routing",
            "History",
            "HistoryPoint",
            "Baseline",
            "BaselineStatus",
            "GpuSource",
            "ConversationList",
            "DashboardList",
            "Conversation",
            "ApiError",
            "WorkerState",
            "TurnNumberFigures",
            "ServerTiming",
        ] {
            let declaration = format!("export type {declared} = ");
            assert_eq!(text.matches(&declaration).count(), 1, "{declared}");
        }
        assert!(!text.contains("bigint"));
    }

    #[test]
    fn comments_of_one_line_are_one_line() {
        let mut text = String::new();
        write(
            &mut text,
            "a = {\n/**\n * One.\n */\nb, \n/**\n * One.\n * Two.\n */\nc };",
            "  ",
        );
        let expected = "a = {\n  /** One. */\n  b,\n  /**\n   * One.\n   * Two.\n   */\n  c };\n";
        assert_eq!(text, expected);
    }
}
