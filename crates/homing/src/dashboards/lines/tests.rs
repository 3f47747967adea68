//! Which cell is taken, and what a dashboard looks like afterwards.

use expect_test::{Expect, expect};
use loadgen::baseline::{BaselineFigures, SCHEMA};

use super::*;

const SHIPPED: &str = include_str!("../../../../../dashboards/grafana/gtc-demo.json");

fn figures(p95: f64) -> BaselineFigures {
    BaselineFigures {
        p95: Some(p95),
        ..BaselineFigures::default()
    }
}

fn cell_of(mode: &str, ttft_ms: f64) -> BaselineCell {
    BaselineCell {
        mode: mode.to_owned(),
        requests: 1,
        errors: 0,
        ttft_ms: figures(ttft_ms),
        tpot_ms: figures(33.3333),
        itl_ms: figures(50.0),
        e2e_ms: BaselineFigures::default(),
        rps: 1.0,
        tops: 1.0,
        kv_hit_pct: None,
        turns: Vec::new(),
        verdicts: std::collections::BTreeMap::new(),
    }
}

/// Levels with their modes; the TTFT of each cell is its level and a bit for its position.
fn baseline(levels: &[(u32, &[&str])]) -> Baseline {
    let level = |&(concurrency, modes): &(u32, &[&str])| BaselineLevel {
        concurrency,
        cells: (0..)
            .zip(modes)
            .map(|(position, mode)| cell_of(mode, f64::from(concurrency + position)))
            .collect(),
    };
    Baseline {
        schema: SCHEMA,
        run_id: "abc".to_owned(),
        created_ms: 1_750_000_000_000,
        source: "a test".to_owned(),
        simulated: true,
        profile: "p".to_owned(),
        workload: "w".to_owned(),
        workers: 3,
        seed: 42,
        repeats: 1,
        warmup_s: 0.0,
        window_s: 1.0,
        levels: levels.iter().map(level).collect(),
    }
}

#[track_caller]
fn check(levels: &[(u32, &[&str])], choice: &Choice, expected: &Expect) {
    let said = match Lines::choose(&baseline(levels), choice) {
        Ok(lines) => lines.to_string(),
        Err(error) => format!("refused: {error}"),
    };
    expected.assert_eq(&said);
}

fn at(level: u32) -> Choice {
    Choice {
        level: Some(level),
        ..Choice::default()
    }
}

#[test]
fn lines_follow_the_load_unless_a_level_is_named() {
    let levels: &[(u32, &[&str])] = &[
        (60, &["round-robin", "kv-blocks", "kv"]),
        (120, &["round-robin", "kv-blocks", "kv+draft"]),
        (180, &["kv"]),
    ];
    check(
        levels,
        &Choice::default(),
        &expect![[r#"
            Reference lines (baseline: round-robin, one optimisation: kv, two optimisations: kv+draft) at the level of the load, where the file has it, from run abc of 2025-06-15, simulated.
              baseline_ttft_p95  0.06 s at 60, 0.12 s at 120
              baseline_tpot_p95  0.033333 s at 60, 0.033333 s at 120
              baseline_itl_p95   0.05 s at 60, 0.05 s at 120
              single_ttft_p95    0.062 s at 60, 0.18 s at 180
              single_tpot_p95    0.033333 s at 60, 0.033333 s at 180
              single_itl_p95     0.05 s at 60, 0.05 s at 180
              double_ttft_p95    0.122 s at 120
              double_tpot_p95    0.033333 s at 120
              double_itl_p95     0.05 s at 120"#]],
    );
    check(
        levels,
        &at(120),
        &expect![[r#"
        Reference lines (baseline: round-robin, one optimisation: kv-blocks, two optimisations: kv+draft) at 120 conversations, from run abc of 2025-06-15, simulated.
          baseline_ttft_p95  0.12 s
          baseline_tpot_p95  0.033333 s
          baseline_itl_p95   0.05 s
          single_ttft_p95    0.121 s
          single_tpot_p95    0.033333 s
          single_itl_p95     0.05 s
          double_ttft_p95    0.122 s
          double_tpot_p95    0.033333 s
          double_itl_p95     0.05 s"#]],
    );
    check(
        levels,
        &at(100),
        &expect!["refused: no level 100; available: 60, 120, 180"],
    );
    check(
        levels,
        &at(180),
        &expect!["refused: no mode round-robin at 180 conversations; available: kv"],
    );
}

#[test]
fn what_follows_the_load_is_an_expression_and_what_does_not_a_number() {
    let baseline = baseline(&[(60, &["round-robin"]), (120, &["round-robin"])]);
    let first = |choice: &Choice| {
        let lines = Lines::choose(&baseline, choice).unwrap();
        lines.constants()[0].1.clone()
    };
    assert_eq!(
        first(&Choice::default()),
        "0.06 * (scalar(max(loadgen_target_conversations)) == bool 60) \
         + 0.12 * (scalar(max(loadgen_target_conversations)) == bool 120)"
    );
    assert_eq!(first(&at(120)), "0.12");
}

#[test]
fn a_mode_that_is_not_there_is_refused_if_it_was_named() {
    let levels: &[(u32, &[&str])] = &[(60, &["round-robin", "random"])];
    let single = |mode: &str| Choice {
        modes: [None, Some(mode.to_owned()), None],
        ..Choice::default()
    };
    check(
        levels,
        &single("kv"),
        &expect!["refused: no mode kv at 60 conversations; available: round-robin, random"],
    );
    let without = Choice {
        modes: [Some("fifo".to_owned()), None, None],
        ..Choice::default()
    };
    check(
        levels,
        &without,
        &expect!["refused: no mode fifo at 60 conversations; available: round-robin, random"],
    );
    check(&[], &without, &expect!["refused: `levels` is empty"]);
    check(
        &[(60, &["kv"]), (80, &["kv", "random"])],
        &Choice::default(),
        &expect!["refused: no mode round-robin at any level; available: kv, random"],
    );
    check(
        levels,
        &Choice::default(),
        &expect![[r#"
            Reference lines (baseline: round-robin) at the level of the load, where the file has it, from run abc of 2025-06-15, simulated.
              baseline_ttft_p95  0.06 s at 60
              baseline_tpot_p95  0.033333 s at 60
              baseline_itl_p95   0.05 s at 60
              single_ttft_p95    no line: no figure in the file
              single_tpot_p95    no line: no figure in the file
              single_itl_p95     no line: no figure in the file
              double_ttft_p95    no line: no figure in the file
              double_tpot_p95    no line: no figure in the file
              double_itl_p95     no line: no figure in the file"#]],
    );
}

fn some_lines() -> Lines {
    let baseline = baseline(&[(60, &["round-robin", "kv", "kv+draft"])]);
    Lines::choose(&baseline, &at(60)).unwrap()
}

#[test]
fn all_nine_are_set_and_nothing_else_is_changed() {
    let lines = some_lines();
    let filled: Value = serde_json::from_str(&fill(SHIPPED, &lines).unwrap()).unwrap();
    let description = filled["description"].as_str().unwrap();
    assert!(description.contains("run abc of 2025-06-15, simulated"));
    // Undoing what should have been done gives what was shipped.
    let mut undone = filled;
    let mut set = 0;
    for variable in undone["templating"]["list"].as_array_mut().unwrap() {
        if variable["type"] == "constant" {
            let seconds: f64 = variable["query"].as_str().unwrap().parse().unwrap();
            assert!(seconds > 0.0, "{variable}");
            variable["query"] = "NaN".into();
            set += 1;
        }
    }
    assert_eq!(set, 9);
    let shipped: Value = serde_json::from_str(SHIPPED).unwrap();
    undone["description"] = shipped["description"].clone();
    assert_eq!(undone, shipped);
}

#[test]
fn what_a_file_says_is_chosen_follows() {
    let mut dashboard: Value = serde_json::from_str(SHIPPED).unwrap();
    for variable in dashboard["templating"]["list"].as_array_mut().unwrap() {
        let chosen = serde_json::json!({ "selected": true, "text": "NaN", "value": "NaN" });
        variable["options"] = Value::Array(vec![chosen.clone()]);
        variable["current"] = chosen;
    }
    let filled = fill(&dashboard.to_string(), &some_lines()).unwrap();
    let filled: Value = serde_json::from_str(&filled).unwrap();
    let variables = filled["templating"]["list"].as_array().unwrap();
    for variable in variables.iter().filter(|one| one["type"] == "constant") {
        for chosen in [&variable["current"], &variable["options"][0]] {
            assert_eq!(chosen["value"], variable["query"]);
            assert_eq!(chosen["text"], variable["query"]);
            assert_eq!(chosen["selected"], true);
        }
    }
}

#[test]
fn a_dashboard_without_one_of_the_constants_is_refused() {
    let renamed = SHIPPED.replacen("single_itl_p95", "single_itl", 1);
    let error = fill(&renamed, &some_lines()).unwrap_err().to_string();
    assert_eq!(error, "the dashboard has no variable single_itl_p95");
    for no_dashboard in ["", "{}", "[]"] {
        assert!(fill(no_dashboard, &some_lines()).is_err());
    }
}
