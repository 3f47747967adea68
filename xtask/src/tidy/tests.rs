//! Every check finds what is planted, where it is planted, and nothing beside it.

use super::*;

#[track_caller]
fn check(check: Check, files: &[(&str, &str)], expected: &[&str]) {
    let files: Vec<File> = files
        .iter()
        .map(|(path, text)| File::new(path, text))
        .collect();
    let found: Vec<String> = check(&files).iter().map(Problem::to_string).collect();
    assert_eq!(found, expected);
}

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\n{rest}")
}

#[test]
fn a_crate_uses_lower_layers_only() {
    check(
        layers::check_layers,
        &[
            (
                "crates/serve/router/Cargo.toml",
                &manifest(
                    "router",
                    "[dependencies]\ncontract.workspace = true\nserde.workspace = true\n",
                ),
            ),
            (
                "crates/engines/engine/Cargo.toml",
                &manifest("engine", "[dev-dependencies]\nfrontend.workspace = true\n"),
            ),
            (
                "xtask/Cargo.toml",
                &manifest("xtask", "[dependencies]\nhoming.workspace = true\n"),
            ),
        ],
        &[],
    );
    check(
        layers::check_layers,
        &[(
            "crates/serve/router/Cargo.toml",
            &manifest(
                "router",
                "[dependencies]\nengine-like = \"1\"\nengine.workspace = true\nfrontend = { path = \"../frontend\" }\n",
            ),
        )],
        &[
            "crates/serve/router/Cargo.toml:5: layer 1 may not use `engine` of layer 2; move what both need down",
            "crates/serve/router/Cargo.toml:6: layer 1 may not use `frontend` of layer 3; move what both need down",
        ],
    );
    check(
        layers::check_layers,
        &[(
            "crates/base/contract/Cargo.toml",
            &manifest(
                "contract",
                "[target.'cfg(unix)'.build-dependencies]\nopenai.workspace = true\n",
            ),
        )],
        &[
            "crates/base/contract/Cargo.toml:4: layer 0 may not use `openai` of layer 0; move what both need down",
        ],
    );
}

#[test]
fn every_crate_has_a_layer_and_a_folder() {
    check(
        layers::check_layers,
        &[
            ("crates/serve/novelty/Cargo.toml", &manifest("novel", "")),
            ("crates/reach/router/Cargo.toml", &manifest("router", "")),
            ("crates/homing/Cargo.toml", &manifest("homing", "")),
        ],
        &[
            "crates/serve/novelty/Cargo.toml:1: give `novel` a folder and a layer in xtask/src/crates.rs",
            "crates/reach/router/Cargo.toml:1: move it to crates/serve/router, or change xtask/src/crates.rs",
        ],
    );
}

#[test]
fn lints_are_inherited() {
    check(
        layers::check_lints,
        &[
            ("Cargo.toml", "[workspace]\n"),
            (
                "crates/a/Cargo.toml",
                &manifest("a", "[lints]\nworkspace = true\n"),
            ),
            ("crates/b/Cargo.toml", &manifest("b", "")),
            (
                "xtask/Cargo.toml",
                &manifest("c", "[lints]\nworkspace = false\n"),
            ),
        ],
        &[
            "crates/b/Cargo.toml:1: add `[lints]` with `workspace = true`",
            "xtask/Cargo.toml:1: add `[lints]` with `workspace = true`",
        ],
    );
}

#[test]
fn a_file_starts_with_its_header() {
    check(
        source::check_headers,
        &[
            ("a.rs", "//! Why.\n"),
            ("b.rs", "use x;\n//! Late.\n"),
            ("c.py", ""),
            ("d.rs", ""),
        ],
        &[
            "b.rs:1: start with a `//!` header: why this shape",
            "d.rs:1: start with a `//!` header: why this shape",
        ],
    );
}

#[test]
fn only_production_lines_count() {
    let full = "line\n".repeat(500);
    let inline_tests = format!("{full}#[cfg(test)]\nmod tests {{\n{full}}}\n");
    let test_only_item = format!("#[cfg(test)]\nfn shown() {{}}\n{full}");
    let tests_elsewhere = format!("{full}#[cfg(test)]\nmod tests;\n");
    check(
        source::check_length,
        &[
            ("full.rs", &full),
            ("inline.rs", &inline_tests),
            ("crates/a/src/b/tests.rs", &test_only_item),
            ("crates/a/tests/all.rs", &test_only_item),
            ("item.rs", &test_only_item),
            ("elsewhere.rs", &tests_elsewhere),
            ("long.md", &test_only_item),
        ],
        &[
            "item.rs:501: split: 502 production lines, at most 500",
            "elsewhere.rs:501: split: 502 production lines, at most 500",
        ],
    );
}

#[test]
fn leftovers_are_deleted() {
    check(
        source::check_names,
        &[
            ("a.rs", ""),
            ("a.rs.old", ""),
            ("older.rs", ""),
            ("crates/a/src/b/mod.rs", ""),
        ],
        &[
            "a.rs.old:1: delete: git remembers what was replaced",
            "crates/a/src/b/mod.rs:1: name it after its folder, beside the folder",
        ],
    );
}

#[test]
fn a_mebibyte_is_enough() {
    let limit = "x".repeat(1 << 20);
    let beyond = "x".repeat((1 << 20) + 1);
    check(
        source::check_size,
        &[("limit.json", &limit), ("beyond.json", &beyond)],
        &["beyond.json:1: 1048577 bytes: generate, download or split it"],
    );
}

#[test]
fn unfinished_work_is_not_committed() {
    let marks = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("to", "do!("),
    ];
    let [note, broken, hole] = marks;
    let text = format!("fine\n// {note}: later\n// {note}S\nmy_{hole})\nlet x = {hole});\n");
    check(
        source::check_unfinished,
        &[
            ("a.rs", &text),
            ("b.py", &format!("# ({broken})")),
            ("c.md", &text),
        ],
        &[
            &format!("a.rs:2: `{note}`: do it, or open an issue and delete the mark"),
            &format!("a.rs:5: `{hole}`: do it, or open an issue and delete the mark"),
            &format!("b.py:1: `{broken}`: do it, or open an issue and delete the mark"),
        ],
    );
}

#[test]
fn only_the_binary_reads_the_environment() {
    let read = "// std::env::var is elsewhere\nlet home = std::env::var_os(\"HOME\");\n";
    check(
        source::check_environment,
        &[
            ("crates/homing/src/a.rs", read),
            ("xtask/src/a.rs", read),
            ("crates/serve/router/src/a.rs", read),
        ],
        &[
            "crates/serve/router/src/a.rs:2: take it as configuration: only `homing` reads the environment",
        ],
    );
}

#[test]
fn a_stale_page_is_found_where_it_differs() {
    let metrics = telemetry::catalog::markdown();
    let [_, architecture] = &crate::codegen::PAGES;
    let architecture = (architecture.fresh)("# Architecture\n\n");
    let with = |metrics: &str, architecture: &str, expected: &[&str]| {
        let files = [
            ("docs/metrics.md", metrics),
            ("ARCHITECTURE.md", architecture),
        ];
        check(product::check_generated, &files, expected);
    };
    with(&metrics, &architecture, &[]);
    check(
        product::check_generated,
        &[],
        &[
            "docs/metrics.md:1: out of date: run `cargo xtask codegen`",
            "ARCHITECTURE.md:1: out of date: run `cargo xtask codegen`",
        ],
    );
    let place = |text: &str, found: &str| {
        let at = text.lines().position(|line| line == found);
        at.expect("a line of the page") + 1
    };
    let heading = place(&metrics, "## Router");
    with(
        &metrics.replacen("## Router", "## Rooter", 1),
        &architecture,
        &[&format!(
            "docs/metrics.md:{heading}: out of date: run `cargo xtask codegen`"
        )],
    );
    let first_row = place(&architecture, "|---|---|---|") + 1;
    with(
        &metrics,
        &architecture.replacen("**`crates/serve/`**", "**`crates/`**", 1),
        &[&format!(
            "ARCHITECTURE.md:{first_row}: out of date: run `cargo xtask codegen`"
        )],
    );
}

#[test]
fn files_that_import_each_other_in_a_ring_are_found() {
    let above =
        "//! x\nuse crate::middle::{Middle, other::Other};\nmod child;\nuse child::Child;\n";
    check(
        rings::check_rings,
        &[
            (
                "crates/a/src/lib.rs",
                "mod above;\nmod middle;\nuse above::Above;\n",
            ),
            ("crates/a/src/above.rs", above),
            ("crates/a/src/above/child.rs", "use super::Above;\n"),
            (
                "crates/a/src/middle.rs",
                "// not crate::above::Above\nuse crate::Above;\n",
            ),
            ("crates/a/src/middle/other.rs", ""),
            ("crates/a/src/middle/tests.rs", "use crate::above::Above;\n"),
        ],
        &[],
    );
    check(
        rings::check_rings,
        &[
            (
                "crates/a/src/above.rs",
                "use crate::{low::{self, Low}, middle::Middle};\n",
            ),
            ("crates/a/src/middle.rs", "fn f() -> super::low::Low {}\n"),
            (
                "crates/a/src/low.rs",
                "#[cfg(test)]\nmod tests {\nuse super::Low;\n}\n",
            ),
            ("crates/b/src/low.rs", "use crate::above::child::Child;\n"),
            (
                "crates/b/src/above.rs",
                "mod child;\nfn f() -> child::Child {}\n",
            ),
            ("crates/b/src/above/child.rs", "use crate::low::Low;\n"),
        ],
        &[
            "crates/b/src/above/child.rs:1: a ring of files: above::child, low; move what they share into one below them",
        ],
    );
}

#[test]
fn statuses_of_failures_are_chosen_in_one_file() {
    let chosen = "// StatusCode::NOT_FOUND\nStatusCode::OK;\nStatusCode::NOT_FOUND;\n";
    check(
        once::check_statuses,
        &[
            ("crates/serve/frontend/src/error.rs", chosen),
            ("crates/serve/frontend/src/a/tests.rs", chosen),
            ("crates/prove/console/src/a.rs", chosen),
            ("crates/serve/frontend/src/a.rs", chosen),
        ],
        &["crates/serve/frontend/src/a.rs:3: choose statuses of failures in error.rs"],
    );
}

#[test]
fn modes_are_named_in_their_table() {
    let named = "\"least-loaded\": 1\n";
    check(
        once::check_modes,
        &[
            ("crates/serve/router/src/mode/spec.rs", named),
            ("ui/src/api/modes.ts", named),
            ("ui/src/lib/mode.test.ts", named),
            ("crates/prove/chaos/src/plan.rs", named),
            ("ui/src/lib/mode.ts", named),
        ],
        &[
            "ui/src/lib/mode.ts:1: `least-loaded` is named here; take it from crates/serve/router/src/mode/spec.rs",
        ],
    );
}

#[test]
fn the_maps_paths_exist() {
    let map = "| x | `router/src/queue.rs`, `engine/profiles/*.toml`, `docs/a.md` |\n| y | `lab/src/gone.rs` |\n";
    check(
        once::check_map,
        &[
            ("ARCHITECTURE.md", map),
            ("crates/serve/router/src/queue.rs", ""),
            ("crates/engines/engine/profiles/a.toml", ""),
        ],
        &["ARCHITECTURE.md:2: `lab/src/gone.rs` does not exist"],
    );
}

#[test]
fn dashboards_ask_for_metrics_that_exist() {
    let known = r#"
        "expr": "sum(rate(dynamo_frontend_requests_total{namespace=\"x\"}[1m]))"
        "expr": "rate(trtllm_request_queue_time_seconds_sum[1m]) by (dynamo_namespace)"
        "expr": "homing_frontend_ttft_window_seconds{quantile=\"0.95\"}"
        record: homing:requests:rate
        - homing_build_info: homing-frontend, DCGM_FI_DEV_GPU_UTIL
    "#;
    let unknown = "homing_made_up\nrate(dynamo_frontend_requests_total_sum[1m])\n\
                   trtllm_request_queue_time_seconds + loadgen_made_up\n";
    check(
        product::check_dashboards,
        &[
            ("dashboards/a.json", known),
            ("dashboards/b.json", unknown),
            ("docs/c.md", unknown),
        ],
        &[
            "dashboards/b.json:1: `homing_made_up` is not in crates/base/telemetry/src/catalog",
            "dashboards/b.json:2: `dynamo_frontend_requests_total_sum` is not in crates/base/telemetry/src/catalog",
            "dashboards/b.json:3: `trtllm_request_queue_time_seconds` is not in crates/base/telemetry/src/catalog",
            "dashboards/b.json:3: `loadgen_made_up` is not in crates/base/telemetry/src/catalog",
        ],
    );
}

#[test]
fn the_corpus_has_forty_articles() {
    let articles: Vec<String> = (0..40)
        .map(|number| format!("corpus/{number}.md"))
        .collect();
    let files: Vec<(&str, &str)> = articles.iter().map(|path| (path.as_str(), "")).collect();
    check(product::check_corpus, &files, &[]);
    let mut files = files[1..].to_vec();
    files.push(("corpus/README.md", ""));
    check(
        product::check_corpus,
        &files,
        &["corpus:1: 39 articles; write at least 40"],
    );
}
