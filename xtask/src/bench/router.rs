//! What a pick costs, and the prefix index beside the published crate `dynamo-kv-router`.
//!
//! The measuring is done by programs of their own, each built in release: criterion's
//! benchmarks and three plain ones in `crates/serve/router/benches/`, and `benches/beside-dynamo/`,
//! a workspace of its own because of what it depends on. Here they are run one after the
//! other, and what they found is set beside the goals. No goal fails anything.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::repository;

/// What to count instructions of: the operation's name, how often, and what it is called.
const COUNTED: [(&str, u32, &str); 4] = [
    ("pick-64", 2000, "pick and release, 64 workers"),
    ("lookup-128", 2000, "lookup, 128 blocks on 3 workers of 64"),
    (
        "lookup-conversations",
        2000,
        "lookup, conversations, 64 workers",
    ),
    ("ingest", 20_000, "block stored or removed"),
];

const THEIRS: [(&str, &str); 3] = [
    ("radix-tree", "RadixTree"),
    ("concurrent-tree", "Concurrent…"),
    ("positional", "Positional…"),
];

/// What is measured, the goal, the figure's name and its unit.
const GOALS: [(&str, &str, &str, &str); 7] = [
    (
        "pick, 64 workers, 4,000 tokens, p50",
        "",
        "pick-64-p50",
        "µs",
    ),
    (
        "pick, 64 workers, 4,000 tokens, p99",
        "≤ 20",
        "pick-64-p99",
        "µs",
    ),
    (
        "pick, 1,000 workers, 4,000 tokens, p50",
        "",
        "pick-1000-p50",
        "µs",
    ),
    (
        "pick, 1,000 workers, 4,000 tokens, p99",
        "≤ 200",
        "pick-1000-p99",
        "µs",
    ),
    (
        "lookup, conversations on 64 workers, mean",
        "",
        "lookup/conversations",
        "ns",
    ),
    (
        "index, a block, conversations on 64 workers",
        "≤ 40",
        "bytes-conversations",
        "B",
    ),
    (
        "index, a block, at the worst fill",
        "≤ 40",
        "bytes-worst-fill",
        "B",
    ),
];

/// The rows of the comparison, and whether more is better.
const COMPARED: [(&str, &str, bool); 9] = [
    ("lookup-one-prompt", "128 blocks, one hot prompt, ns", false),
    (
        "lookup-8-blocks-3-workers",
        "8 blocks, 3 workers, ns",
        false,
    ),
    (
        "lookup-128-blocks-3-workers",
        "128 blocks, 3 workers, ns",
        false,
    ),
    (
        "lookup-8-blocks-64-workers",
        "8 blocks, 64 workers, ns",
        false,
    ),
    (
        "lookup-128-blocks-64-workers",
        "128 blocks, 64 workers, ns",
        false,
    ),
    ("lookup-miss", "miss at the first block, ns", false),
    (
        "lookup-conversations",
        "conversations, 64 workers, ns",
        false,
    ),
    ("ingest-million-blocks", "events, million blocks/s", true),
    ("bytes-a-block", "memory, bytes a block", false),
];

pub(crate) fn run(quick: bool, beside_dynamo: bool) -> anyhow::Result<()> {
    say("means (criterion)");
    let criterion = repository::root().join("target/criterion");
    let mut arguments = vec!["--bench", "pick", "--bench", "index", "--"];
    arguments.push(if quick { "--quick" } else { "--noplot" });
    cargo_bench(&arguments, &criterion)?;
    say("percentiles and bytes");
    let mut found = figures(&cargo_bench(&["--bench", "percentiles"], &criterion)?)?;
    found.extend(figures(&cargo_bench(&["--bench", "bytes"], &criterion)?)?);
    for name in ["lookup/conversations", "ingest/from-empty"] {
        found.insert(name.to_owned(), mean_nanos(&criterion, name)?);
    }
    print_goals(&found)?;
    count_instructions(&criterion)?;
    if beside_dynamo {
        say("building and running the comparison");
        print_comparison(&compare(quick)?)?;
    }
    Ok(())
}

/// Runs benchmarks of the router and returns what they print.
fn cargo_bench(arguments: &[&str], criterion: &Path) -> anyhow::Result<String> {
    let mut command = Command::new("cargo");
    command
        .current_dir(repository::root())
        .args(["bench", "--quiet", "--package", "router"])
        .args(arguments)
        .env("CRITERION_HOME", criterion);
    output(&mut command)
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let done = command.output().with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?} failed:\n{errors}");
    Ok(String::from_utf8(done.stdout)?)
}

/// Lines of names and a number at the end, separated by tabs.
fn figures(printed: &str) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut found = BTreeMap::new();
    for line in printed.lines() {
        if let Some((name, figure)) = line.rsplit_once('\t') {
            found.insert(name.to_owned(), figure.parse()?);
        }
    }
    Ok(found)
}

fn mean_nanos(criterion: &Path, name: &str) -> anyhow::Result<f64> {
    let path = criterion.join(name).join("new/estimates.json");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let estimates: Value = serde_json::from_str(&text)?;
    let mean = estimates.pointer("/mean/point_estimate");
    mean.and_then(Value::as_f64)
        .with_context(|| format!("{} has no mean", path.display()))
}

fn print_goals(found: &BTreeMap<String, f64>) -> anyhow::Result<()> {
    let figure = |name: &str| found.get(name).with_context(|| format!("no figure {name}"));
    // The stream of criterion's ingest: its length is fixed by its seed.
    let operations = figure("ingest-operations")?;
    println!("\n{:<46} {:>12} {:>12}", "router", "goal", "measured");
    for (what, goal, name, unit) in GOALS {
        println!(
            "{what:<46} {goal:>9} {unit:<2} {:>9.1} {unit}",
            figure(name)?
        );
    }
    let picks = figure("picks-64")?;
    let ingested = operations * 1e3 / figure("ingest/from-empty")?;
    let what = "picks with first token and release, one core";
    println!("{what:<46} {:>9}    {picks:>9.0} a second", "≥ 200,000");
    let what = "index, events applied, one thread";
    println!(
        "{what:<46} {:>9}    {ingested:>9.1} million blocks a second",
        "≥ 10"
    );
    Ok(())
}

/// Instructions do not depend on who else uses the machine.
fn count_instructions(criterion: &Path) -> anyhow::Result<()> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("\nvalgrind is not installed, so instructions are not counted");
        return Ok(());
    }
    let arguments = [
        "--bench",
        "instructions",
        "--no-run",
        "--message-format=json",
    ];
    let built = cargo_bench(&arguments, criterion)?;
    let messages = built
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let program = messages
        .filter(|message: &Value| message.pointer("/target/name") == Some(&"instructions".into()))
        .find_map(|message| Some(message.get("executable")?.as_str()?.to_owned()))
        .context("cargo does not say where the benchmark is")?;
    println!("\n{:<46} {:>12}", "callgrind", "instructions");
    for (operation, times, what) in COUNTED {
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg("--toggle-collect=*measured*")
            .args([&program, operation, &times.to_string()]);
        match collected(&mut command) {
            Some(instructions) => {
                println!("{what:<46} {:>12.0}", instructions / f64::from(times));
            }
            None => println!("{what:<46} {:>12}", "not counted"),
        }
    }
    Ok(())
}

fn collected(command: &mut Command) -> Option<f64> {
    let done = command.output().ok()?;
    let printed = String::from_utf8_lossy(&done.stderr);
    let (_, counts) = printed.split_once("Collected :")?;
    counts.split_whitespace().next()?.parse().ok()
}

fn compare(quick: bool) -> anyhow::Result<BTreeMap<String, f64>> {
    let root = repository::root();
    let mut command = Command::new("cargo");
    command
        .args(["run", "--release", "--quiet", "--locked", "--manifest-path"])
        .arg(root.join("benches/beside-dynamo/Cargo.toml"))
        .arg("--target-dir")
        .arg(root.join("target/beside-dynamo"))
        .args(quick.then_some("--"))
        .args(quick.then_some("quick"));
    figures(&output(&mut command)?)
}

fn print_comparison(found: &BTreeMap<String, f64>) -> anyhow::Result<()> {
    let figure = |row: &str, who: &str| {
        let name = format!("{row}\t{who}");
        found
            .get(&name)
            .with_context(|| format!("no figure {name}"))
    };
    print!("\n{:<32} {:>9}", "beside dynamo-kv-router 1.6.1", "ours");
    for (_, name) in THEIRS {
        print!(" {name:>12}");
    }
    println!(" {:>12}", "best/ours");
    for (row, what, more_is_better) in COMPARED {
        let ours = *figure(row, "ours")?;
        print!("{what:<32} {ours:>9.1}");
        let mut best = f64::INFINITY;
        for (who, _) in THEIRS {
            let theirs = *figure(row, who)?;
            print!(" {theirs:>12.1}");
            best = best.min(if more_is_better {
                ours / theirs
            } else {
                theirs / ours
            });
        }
        println!(" {best:>11.2}x");
    }
    println!("answers to all prompts were compared and are the same; best/ours: how many times");
    println!("better ours is than the best of theirs in that row");
    Ok(())
}

fn say(what: &str) {
    println!("{what} …");
}
