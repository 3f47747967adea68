//! The table of routing modes: one row says everything about a mode but how it decides.
//!
//! Names in options and requests, `--help`, the API's schema, the console, the Helm chart's schema
//! and the table in `docs/routing.md` follow from it. `cargo xtask codegen` writes those that are
//! files, and the tests below compare them.

use serde::Serialize;

use super::ModeName;

/// The description of one mode.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ModeSpec {
    #[serde(skip)]
    pub mode: ModeName,
    /// In options, requests and files.
    pub name: &'static str,
    /// The label in the console.
    pub label: &'static str,
    /// What it chooses.
    #[serde(skip)]
    pub chooses: &'static str,
    /// When to use it.
    #[serde(skip)]
    pub purpose: &'static str,
    /// Whether it takes caches into account.
    pub reads_caches: bool,
    /// Whether requests wait in the router while every worker is full. The other modes send them
    /// on, to wait in the engine of the worker that was chosen.
    #[serde(skip)]
    pub binds_late: bool,
    /// Its parameters, as requests and options spell them.
    pub parameters: &'static [&'static str],
    /// The terms of a cost in time, in the order in which they are shown.
    pub terms: &'static [CostTerm],
    /// What decides where there is no cost.
    pub no_cost: Option<&'static str>,
}

/// One term of a cost, by its field in a decision.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CostTerm {
    pub key: &'static str,
    pub label: &'static str,
    pub about: &'static str,
}

const fn term(key: &'static str, label: &'static str, about: &'static str) -> CostTerm {
    CostTerm { key, label, about }
}

/// All modes, in the order in which they are listed, which is that of [`ModeName`]'s variants. The
/// first is the default.
pub const MODES: [ModeSpec; 6] = [
    ModeSpec {
        mode: ModeName::Kv,
        name: "kv",
        label: "KV-aware",
        chooses: "the least expected seconds, among workers with a free slot",
        purpose: "in general",
        reads_caches: true,
        binds_late: true,
        parameters: &[],
        terms: &[
            term(
                "ttft_ms",
                "first token",
                "Expected time to this request's first token: what is pending there and what is not cached.",
            ),
            term(
                "queue_ms",
                "queue",
                "What this prompt and those that wait for their first token there cost each other.",
            ),
            term(
                "decode_ms",
                "decodes",
                "Time that this request costs the answers under way there.",
            ),
            term(
                "eviction_ms",
                "eviction",
                "Time to compute again what would be evicted from a full cache.",
            ),
            term(
                "wait_ms",
                "wait",
                "Time until a place in the batch is free.",
            ),
        ],
        no_cost: None,
    },
    ModeSpec {
        mode: ModeName::KvBlocks,
        name: "kv-blocks",
        label: "KV blocks",
        chooses: "the least `overlap_score_weight × prefill_blocks + decode_blocks`, the published formula",
        purpose: "to reproduce Dynamo 0.9's KV mode",
        reads_caches: true,
        binds_late: false,
        parameters: &["overlap_score_weight", "router_temperature"],
        terms: &[],
        no_cost: None,
    },
    ModeSpec {
        mode: ModeName::RoundRobin,
        name: "round-robin",
        label: "Round robin",
        chooses: "the workers in turn",
        purpose: "as a baseline",
        reads_caches: false,
        binds_late: false,
        parameters: &[],
        terms: &[],
        no_cost: Some("No cost: workers take turns."),
    },
    ModeSpec {
        mode: ModeName::Random,
        name: "random",
        label: "Random",
        chooses: "a worker at random",
        purpose: "as a baseline",
        reads_caches: false,
        binds_late: false,
        parameters: &[],
        terms: &[],
        no_cost: Some("No cost: a worker is drawn at random."),
    },
    ModeSpec {
        mode: ModeName::LeastLoaded,
        name: "least-loaded",
        label: "Least loaded",
        chooses: "the lowest share of slots in use",
        purpose: "when prompts share nothing",
        reads_caches: false,
        binds_late: false,
        parameters: &[],
        terms: &[],
        no_cost: Some("No cost: the worker with the smallest share of its slots taken."),
    },
    ModeSpec {
        mode: ModeName::PowerOfTwo,
        name: "power-of-two",
        label: "Power of two",
        chooses: "the less loaded of two workers drawn at random",
        purpose: "when prompts share nothing, with many independent routers",
        reads_caches: false,
        binds_late: false,
        parameters: &[],
        terms: &[],
        no_cost: Some("No cost: two workers are drawn and the less loaded one takes it."),
    },
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use expect_test::expect_file;

    use super::*;
    use crate::mode::{BlockWeights, Mode};

    /// A file with the lines between two marks replaced.
    fn with_lines(path: &str, mark: &str, end: &str, lines: &str) -> String {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let text = std::fs::read_to_string(root.join(path)).unwrap();
        let (before, rest) = text.split_once(mark).unwrap();
        let (_, after) = rest.split_once(end).unwrap();
        format!("{before}{mark}{lines}{end}{after}")
    }

    #[test]
    fn every_mode_has_its_row_and_its_policy() {
        for (index, spec) in MODES.iter().enumerate() {
            assert_eq!(spec.mode as usize, index, "{}", spec.name);
            assert_eq!(ModeName::ALL[index], spec.mode);
            let mode = Mode::new(spec.mode, BlockWeights::default());
            assert_eq!(mode.policy().name(), spec.name);
            assert_eq!(mode.weights().is_some(), !spec.parameters.is_empty());
            let costs = spec.terms.len() + spec.parameters.len();
            assert_eq!(spec.no_cost.is_none(), costs > 0, "{}", spec.name);
        }
    }

    #[test]
    fn the_modes_of_pages_are_fresh() {
        let rows = serde_json::to_string_pretty(&MODES).unwrap();
        let file = format!(
            "// Generated from Rust by `cargo xtask codegen`: change crates/serve/router/src/mode/spec.rs.\n\
             export const MODES = {rows} as const;\n"
        );
        expect_file!["../../../../../ui/src/api/modes.ts"].assert_eq(&file);
    }

    #[test]
    fn the_modes_of_the_chart_are_fresh() {
        let names = serde_json::to_string(&MODES.map(|spec| spec.name)).unwrap();
        let names = names.replace(',', ", ");
        let path = "deploy/helm/homing/values.schema.json";
        let file = with_lines(path, "\"routerMode\": { \"enum\": ", " },", &names);
        expect_file!["../../../../../deploy/helm/homing/values.schema.json"].assert_eq(&file);
    }

    #[test]
    fn the_modes_of_the_docs_are_fresh() {
        let rows = MODES.iter().enumerate().map(|(index, spec)| {
            let default = if index == 0 { " (default)" } else { "" };
            let ModeSpec {
                name,
                chooses,
                purpose,
                ..
            } = spec;
            format!("| `{name}`{default} | {chooses} | {purpose} |\n")
        });
        let rows: String = rows.collect();
        let head = "| mode | chooses | use it |\n|---|---|---|\n";
        let file = with_lines("docs/routing.md", head, "\nSet a mode", &rows);
        expect_file!["../../../../../docs/routing.md"].assert_eq(&file);
    }
}
