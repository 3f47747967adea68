//! Every shipped workload can run, and what is wrong with others is named.

use super::*;

const SMALL: &str = r#"
about = "small"
[conversations]
turns = [1, 2]
starters = { pool = 2 }
starter_tokens = [100, 200]
follow_up_tokens = [5, 9]
max_tokens = 50
"#;

fn profile(workload: &Workload) -> Profile {
    let name = workload.profile.as_deref();
    Profile::named(name.unwrap_or(engine::sim::DEFAULT_PROFILE)).unwrap()
}

#[test]
fn the_shipped_workloads_run_on_their_fleets() {
    for name in Workload::names() {
        let workload = Workload::named(name).unwrap();
        let profile = profile(&workload);
        let workers = workload.workers.unwrap_or(profile.workers);
        assert_eq!(workload.check(&profile, workers), Ok(()), "{name}");
        assert!(!workload.about.is_empty());
        assert_eq!(workload.fleet(&profile, workers).len(), workers as usize);
    }
}

#[test]
fn the_specifications_workload_is_as_specified() {
    let workload = Workload::named("specification").unwrap();
    let script = &workload.script;
    assert_eq!((script.turns.clone(), script.max_tokens), (3..=5, 1024));
    assert_eq!(script.starter_tokens, 3500..=4000);
    assert_eq!(
        script.starters,
        Starters::Shared {
            pool: 10,
            popularity: Popularity::Uniform
        }
    );
    let profile = profile(&workload);
    assert_eq!((profile.workers, profile.slots), (3, 64));
}

#[test]
fn what_differs_reaches_the_fleet() {
    let text =
        format!("cache_blocks = 100\n{SMALL}\n[[worker]]\nnumber = 1\nspeed = 0.5\nslots = 7\n");
    let workload = Workload::parse("mixed", &text).unwrap();
    let profile = profile(&workload);
    let fleet = workload.fleet(&profile, 2);
    let told = |plan: &WorkerPlan| (plan.speed, plan.limits().slots, plan.limits().total_blocks);
    assert_eq!(told(&fleet[0]), (1.0, profile.slots, 100));
    assert_eq!(told(&fleet[1]), (0.5, 7, 100));
}

#[test]
fn what_is_wrong_is_said() {
    let unknown = Workload::named("nonsense").unwrap_err().to_string();
    assert!(unknown.starts_with("no workload `nonsense`; available: specification, "));
    for (from, to, expected) in [
        (
            "turns = [1, 2]",
            "turns = [3, 2]",
            "turns: [3, 2] is not a range of at least 1",
        ),
        (
            "{ pool = 2 }",
            "{}",
            "starters are either `unique = true` or a `pool` of at least 1",
        ),
        (
            "{ pool = 2 }",
            "{ pool = 2, zipf = -1.0 }",
            "starters.zipf: -1 is not above 0",
        ),
        (
            "max_tokens = 50",
            "max_tokens = 0",
            "max_tokens is 0 or think_time_s is a reversed range",
        ),
        (
            "max_tokens = 50",
            "max_tokens = 50\n[[changes]]\nat_s = 1\nworker = 0\n",
            "a change is one of `dies`, `returns` and `speed`",
        ),
    ] {
        let error = Workload::parse("x", &SMALL.replace(from, to)).unwrap_err();
        assert_eq!(error.to_string(), format!("workload `x`: {expected}"));
    }
    let workload = Workload::parse("x", &format!("{SMALL}[[worker]]\nnumber = 5\n")).unwrap();
    let profile = profile(&workload);
    let problem = workload.check(&profile, 3).unwrap_err();
    assert_eq!(problem.to_string(), "it names worker 5, but there are 3");
    let tight = Workload::parse("x", &format!("cache_blocks = 3\n{SMALL}")).unwrap();
    let problem = tight.check(&profile, 3).unwrap_err();
    assert!(problem.to_string().contains("3 blocks"));
}
