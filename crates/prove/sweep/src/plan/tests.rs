//! Wishes that make sense become plans; of others the field is named.

use super::command::quoted;
use super::*;

fn partial(text: &str) -> PartialPlan {
    PartialPlan::parse(text).unwrap()
}

fn field(text: &str, is_virtual: bool) -> (&'static str, String) {
    let PlanError { field, problem } = partial(text).resolve(is_virtual).unwrap_err();
    (field, problem)
}

#[test]
fn presets_are_what_they_are_called() {
    let plan = |name: &str| {
        partial(&format!("preset = \"{name}\""))
            .resolve(true)
            .unwrap()
    };
    let published = plan("published");
    assert_eq!(published.levels, [60, 80, 100, 120, 140, 160, 180]);
    let told = (published.repeats, published.warmup_s, published.window_s);
    assert_eq!(told, (6, 60.0, 300.0));
    assert_eq!(published.cells().len(), 7 * 3 * 6);
    let five = plan("five-level");
    assert_eq!(five.levels, [40, 60, 80, 100, 120]);
    let Testbed::Virtual { workers, .. } = &five.testbed else {
        panic!("{:?}", five.testbed);
    };
    assert_eq!(*workers, 4);
    // One switch: all levels with routing off, then all with routing on.
    let modes: Vec<_> = five.cells().into_iter().map(|cell| cell.mode).collect();
    let switches = modes.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(
        (modes.len(), modes[0].as_str(), switches),
        (10 * 6, "round-robin", 1)
    );
    let quick = partial("preset = \"quick\"\ntarget = \"http://x\"")
        .resolve(false)
        .unwrap();
    let minutes = quick.cells().len() as f64 * (quick.warmup_s + quick.window_s) / 60.0;
    assert!(minutes < 10.0, "{minutes}");
}

#[test]
fn only_virtual_runs_are_many_by_themselves() {
    let repeats = |text: &str, is_virtual| partial(text).resolve(is_virtual).unwrap().repeats;
    let target = "target = \"http://x\"\n";
    assert!(repeats("", true) as usize >= stats::intervals::NEEDED_RUNS);
    assert!(repeats("story = true", true) as usize >= stats::intervals::NEEDED_RUNS);
    assert_eq!(repeats(target, false), 1);
    assert_eq!(
        repeats(&format!("{target}preset = \"published\""), false),
        6
    );
    assert_eq!(repeats("repeats = 2", true), 2);
}

#[test]
fn every_repeat_has_a_seed_of_its_own() {
    let plan = partial("repeats = 1000\nlevels = [1]")
        .resolve(true)
        .unwrap();
    let of_plan = |plan: &Plan| -> std::collections::BTreeSet<u64> {
        (1..=plan.repeats)
            .map(|repeat| plan.seed_of(repeat))
            .collect()
    };
    let next = Plan {
        seed: plan.seed + 1,
        ..plan.clone()
    };
    let (one, other) = (of_plan(&plan), of_plan(&next));
    assert_eq!((one.len(), one.intersection(&other).count()), (1000, 0));
}

#[test]
fn what_is_said_first_goes_before_what_is_said_later() {
    let flags = partial("levels = [5, 7]\nseed = 3");
    let file = partial("levels = \"60\"\nmodes = [\"kv\"]\npreset = \"quick\"");
    let plan = flags.or(file).resolve(true).unwrap();
    assert_eq!((plan.levels.as_slice(), plan.seed), (&[5, 7][..], 3));
    assert_eq!(plan.modes, ["kv"]);
    assert_eq!((plan.warmup_s, plan.window_s), (40.0, 60.0));
}

#[test]
fn a_mode_is_run_at_some_levels_if_that_is_all_that_is_wanted() {
    let text = "levels = [60, 120, 180]\nmodes = \"round-robin,kv-blocks@120+180\"\nrepeats = 2";
    let plan = partial(text).resolve(true).unwrap();
    assert_eq!(plan.modes, ["round-robin", "kv-blocks"]);
    let cells = plan.cells();
    let of_blocks = cells.iter().filter(|cell| cell.mode == "kv-blocks");
    assert_eq!((cells.len(), of_blocks.count()), (10, 4));
    let command = plan.command();
    assert!(
        command.contains("--modes round-robin,kv-blocks@120+180"),
        "{command}"
    );
    let all = partial(&text.replace("@120+180", ""))
        .resolve(true)
        .unwrap();
    let written = serde_json::to_value(&all).unwrap();
    assert_eq!(plan.differs_from(&written).as_deref(), Some("only"));
    // Also if only the folder has it.
    let written = serde_json::to_value(&plan).unwrap();
    assert_eq!(all.differs_from(&written).as_deref(), Some("only"));
    let read: Plan = serde_json::from_value(written).unwrap();
    assert_eq!(read, plan);
}

#[test]
fn servers_beside_are_reported_like_modes() {
    let text = "target = \"http://x\"\nmodes = \"kv\"\nbeside = \"a=http://y,b=http://z\"";
    let plan = partial(text).resolve(false).unwrap();
    assert_eq!(plan.modes, ["kv", "a", "b"]);
    let command = plan.command();
    assert!(
        command.contains("--beside a=http://y,b=http://z"),
        "{command}"
    );
    assert!(command.contains("--modes kv --"), "{command}");
    for (text, part) in [
        ("beside = \"a\"", "is not a name and an address"),
        ("beside = \"kv=http://y\"", "kv appears twice"),
        (
            "beside = \"a=http://y\"\nready-url = \"http://y\"",
            "omit the commands",
        ),
    ] {
        let text = format!("target = \"http://x\"\nmodes = \"kv\"\n{text}");
        let (found, problem) = field(&text, false);
        assert_eq!(found, "beside");
        assert!(problem.contains(part), "{problem}");
    }
}

#[test]
fn plans_of_before_settling_could_be_chosen_are_the_same() {
    let plan = |text: &str| partial(text).resolve(true).unwrap();
    let written = serde_json::to_value(plan("")).unwrap();
    assert_eq!(written.get("settle_s"), None);
    assert_eq!(plan("settle = \"120s\"").differs_from(&written), None);
    let other = plan("settle = \"10s\"");
    assert_eq!(other.differs_from(&written).as_deref(), Some("settle_s"));
    assert!(other.command().contains("--settle 10s"));
}

#[test]
fn what_live_sweeps_alone_have_is_checked_too() {
    for (text, expected, part) in [
        (
            "modes = \"kv@61\"",
            "modes",
            "`61` is not one of the plan's levels",
        ),
        ("settle = \"soon\"", "settle", "soon"),
        ("beside = \"a=http://x\"", "beside", "no server"),
    ] {
        let (found, problem) = field(text, true);
        assert_eq!(found, expected, "{text}: {problem}");
        assert!(problem.contains(part), "{text}: {problem}");
    }
}

#[test]
fn the_field_that_makes_no_sense_is_named() {
    for (text, expected, part) in [
        ("levels = \"sixty\"", "levels", "`sixty` is not a number"),
        ("levels = \"60,60\"", "levels", "60 appears twice"),
        ("levels = [0]", "levels", "`0` is not a number"),
        ("modes = \"kv,magic\"", "modes", "magic"),
        ("modes = \"kv,kv\"", "modes", "kv appears twice"),
        ("modes = \"\"", "modes", "no name"),
        ("window = \"0s\"", "window", "measures nothing"),
        ("window = \"long\"", "window", "long"),
        ("warmup = \"-1s\"", "warmup", ""),
        ("repeats = 0", "repeats", "0 is not between 1 and 1000"),
        ("order = \"best\"", "order", "random, abba, grouped"),
        ("slo = \"fast\"", "slo", "ttft_p95=600ms"),
        (
            "preset = \"long\"",
            "preset",
            "published, five-level, quick",
        ),
        ("workload = \"none\"", "workload", "no workload `none`"),
        ("profile = \"none\"", "profile", "no profile `none`"),
        (
            "target = \"http://127.0.0.1:1\"",
            "target",
            "no target server",
        ),
        (
            "workload = \"heterogeneous\"\nworkers = 1",
            "workers",
            "worker",
        ),
        (
            "levels = \"1..4000:1\"\nrepeats = 1000",
            "levels",
            "more than",
        ),
    ] {
        let (field, problem) = field(text, true);
        assert_eq!(field, expected, "{text}: {problem}");
        assert!(problem.contains(part), "{text}: {problem}");
    }
    for (text, expected, part) in [
        ("", "target", "--virtual"),
        (
            "target = \"http://x\"\nprofile = \"p\"",
            "profile",
            "its own",
        ),
        ("target = \"http://x\"\nworkers = 3", "workers", "its own"),
        (
            "target = \"http://x\"\nmodes = \"round_rob\"",
            "modes",
            "round_rob",
        ),
        (
            "target = \"http://x\"\nworkload = \"zipf\"",
            "workload",
            "popularity",
        ),
        (
            "target = \"http://x\"\nworkload = \"worker-death\"",
            "workload",
            "change",
        ),
    ] {
        let (field, problem) = field(text, false);
        assert_eq!(field, expected, "{text}: {problem}");
        assert!(problem.contains(part), "{text}: {problem}");
    }
    let unknown = PartialPlan::parse("levls = \"60\"").unwrap_err();
    assert!(unknown.to_string().contains("levls"), "{unknown}");
}

#[test]
fn commands_understand_words_that_the_router_does_not() {
    let text = "target = \"http://x\"\nmodes = \"round_robin,kv\"\nset-mode-command = \"true\"";
    let plan = partial(text).resolve(false).unwrap();
    assert_eq!(plan.modes, ["round_robin", "kv"]);
    assert!(matches!(plan.testbed, Testbed::Hooks { .. }));
    let homing = partial("target = \"http://x\"").resolve(false).unwrap();
    assert!(matches!(homing.testbed, Testbed::Homing { .. }));
}

#[test]
fn a_plan_is_written_and_read_and_told_apart() {
    let plan = partial("preset = \"quick\"").resolve(true).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(plan.differs_from(&written), None);
    let other = partial("preset = \"quick\"\nseed = 1")
        .resolve(true)
        .unwrap();
    assert_eq!(other.differs_from(&written).as_deref(), Some("seed"));
}

#[test]
fn the_command_makes_the_same_plan() {
    let text = "preset = \"quick\"\nmodes = \"kv\"\nslo = \"ttft_p50=0.2s\"\nseed = 9";
    let plan = partial(text).resolve(true).unwrap();
    let command = plan.command();
    let mut words = command.split(' ').skip(2).peekable();
    let mut toml = String::new();
    while let Some(flag) = words.next() {
        let flag = flag.trim_start_matches("--");
        if flag == "virtual" {
            continue;
        }
        let value = words.next().unwrap();
        let quote = if value.parse::<u64>().is_ok() {
            ""
        } else {
            "\""
        };
        toml += &format!("{flag} = {quote}{value}{quote}\n");
    }
    assert_eq!(partial(&toml).resolve(true).unwrap(), plan, "{command}");
    assert_eq!(quoted("it's {mode}"), r"'it'\''s {mode}'");
}
