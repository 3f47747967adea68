//! Our prefix index and the published crate's take in the same events and look up the same
//! prompts, in turns, in one process.
//!
//! Without arguments, prints `figure<TAB>contender<TAB>value` for each of both; answers are
//! compared first. `count CONTENDER SCENE TIMES` looks prompts up inside [`measured`], for
//! callgrind to count.

mod contenders;
#[path = "../../../crates/serve/router/benches/support/counting.rs"]
mod counting;
#[path = "../../../crates/serve/router/benches/support/index.rs"]
mod indexed;
#[path = "../../../crates/serve/router/benches/support/scene.rs"]
mod scene;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use contenders::{Contender, NAMES, contender};
use contract::KvEvent;
use counting::bytes_in_use;
use scene::{Prompt, Scene};

/// Batches of prompts in a round.
const BATCHES: usize = 125;

/// A router has just hashed the prompt that it looks up, so the hashes are in the nearest
/// cache. So many prompts are copied before the clock starts and looked up before it stops:
/// few enough to stay there, enough not to measure the clock.
const PROMPTS_AT_ONCE: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["count", name, scene, times] => {
            count(name, scene, times.parse().expect("a number of times"));
        }
        ["quick"] => compare(3),
        _ => compare(9),
    }
}

/// The scenes by name. Small ones have the same shape, to be walked under callgrind.
fn scene(name: &str, small: bool) -> Scene {
    let prompts = if small { 200 } else { 2000 };
    let cache_blocks = if small { 512 } else { 8192 };
    match name {
        "8-blocks-3-workers" => Scene::held_by_three(3, 8, prompts),
        "128-blocks-3-workers" => Scene::held_by_three(3, 128, prompts),
        "8-blocks-64-workers" => Scene::held_by_three(64, 8, prompts),
        "128-blocks-64-workers" => Scene::held_by_three(64, 128, prompts),
        "one-prompt" => Scene::held_by_three(3, 128, 1),
        "miss" => Scene::held_by_three(64, 128, prompts).missed(),
        "conversations" => Scene::conversations(64, cache_blocks, prompts),
        unknown => panic!("no scene is called {unknown}"),
    }
}

const SCENES: [&str; 7] = [
    "one-prompt",
    "8-blocks-3-workers",
    "128-blocks-3-workers",
    "8-blocks-64-workers",
    "128-blocks-64-workers",
    "miss",
    "conversations",
];

fn compare(rounds: usize) {
    for name in SCENES {
        let scene = scene(name, false);
        let mut contenders: Vec<_> = NAMES
            .iter()
            .map(|name| (*name, filled(name, &scene)))
            .collect();
        agree(name, &scene, &mut contenders);
        let mut best = vec![vec![Duration::MAX; BATCHES]; NAMES.len()];
        for _ in 0..rounds {
            for ((_, contender), best) in contenders.iter_mut().zip(&mut best) {
                round(contender.as_mut(), &scene, best);
            }
        }
        for (name_of, best) in NAMES.iter().zip(best) {
            let nanos = best.iter().sum::<Duration>().as_nanos() as f64;
            let nanos = nanos / (BATCHES * PROMPTS_AT_ONCE) as f64;
            println!("lookup-{name}\t{name_of}\t{nanos:.1}");
        }
    }
    ingest(rounds.div_ceil(2));
}

/// Looks the scene's prompts up, batch by batch. Keeps each batch's best time of all rounds:
/// other programs disturb some batches of every round, but seldom the same ones.
fn round(contender: &mut dyn Contender, scene: &Scene, best: &mut [Duration]) {
    let mut prompts = scene.prompts.iter().cycle();
    for best in best {
        let prompts: Vec<&Prompt> = prompts.by_ref().take(PROMPTS_AT_ONCE).collect();
        let ready = contender.prepare_lookups(&prompts);
        let begin = Instant::now();
        ready(contender);
        *best = begin.elapsed().min(*best);
    }
}

fn filled(name: &str, scene: &Scene) -> Box<dyn Contender> {
    let mut contender = contender(name, scene.workers);
    contender.prepare_events(scene)(contender.as_mut());
    contender
}

/// Whoever answers faster must still give the same answers.
fn agree(name: &str, scene: &Scene, contenders: &mut [(&str, Box<dyn Contender>)]) {
    for prompt in &scene.prompts {
        let mut answers = contenders
            .iter_mut()
            .map(|(who, contender)| (*who, contender.matches(prompt)));
        let (_, ours) = answers.next().expect("we take part");
        for (who, theirs) in answers {
            assert_eq!(ours, theirs, "{who} sees {name} differently");
        }
    }
    eprintln!("{name}: {} prompts, the same matches", scene.prompts.len());
}

/// Speed of taking the events of the conversations in, and the memory they then take.
fn ingest(rounds: usize) {
    let scene = scene("conversations", false);
    let operations = scene.block_operations() as f64;
    let blocks = distinct_blocks(&scene) as f64;
    for name in NAMES {
        let (mut fastest, mut bytes) = (0.0_f64, 0);
        for _ in 0..rounds {
            let before = bytes_in_use();
            let mut contender = contender(name, scene.workers);
            let ready = contender.prepare_events(&scene);
            let begin = Instant::now();
            ready(contender.as_mut());
            fastest = fastest.max(operations / begin.elapsed().as_secs_f64());
            bytes = bytes_in_use() - before;
        }
        println!("ingest-million-blocks\t{name}\t{:.2}", fastest / 1e6);
        println!("bytes-a-block\t{name}\t{:.1}", bytes as f64 / blocks);
    }
}

/// Blocks that somebody holds in the end.
fn distinct_blocks(scene: &Scene) -> usize {
    let mut held = HashSet::new();
    for (worker, event) in &scene.events {
        match event {
            KvEvent::Stored { blocks, .. } => {
                held.extend(blocks.iter().map(|block| (*worker, block.hash)));
            }
            KvEvent::Removed { blocks } => {
                for block in blocks {
                    held.remove(&(*worker, *block));
                }
            }
            KvEvent::Cleared => held.retain(|(holder, _)| holder != worker),
        }
    }
    let distinct: HashSet<_> = held.into_iter().map(|(_, block)| block).collect();
    distinct.len()
}

fn count(name: &str, scene_name: &str, times: usize) {
    let scene = scene(scene_name, true);
    let mut contender = filled(name, &scene);
    let prompts: Vec<&Prompt> = scene.prompts.iter().cycle().take(times).collect();
    let ready = contender.prepare_lookups(&prompts);
    measured(ready, contender.as_mut());
}

/// What callgrind looks at. Never inlined: it is found by its name.
#[inline(never)]
fn measured(work: contenders::Ready, contender: &mut dyn Contender) {
    work(contender);
}
