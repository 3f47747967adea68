//! Work to be counted in instructions, the one measure that a busy machine does not blur.
//!
//! `instructions OPERATION TIMES`, run under callgrind with collection switched on only in
//! [`measured`]. `cargo xtask bench router` does that.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/index.rs"]
mod indexed;
#[path = "support/scene.rs"]
mod scene;

use std::hint::black_box;

use fleet::Fleet;
use indexed::Indexed;
use scene::{Scene, block_operations};

fn main() {
    // Cargo adds `--bench` when it runs a benchmark itself.
    let arguments: Vec<String> = std::env::args().filter(|one| one != "--bench").collect();
    let [_, operation, times] = arguments.as_slice() else {
        return;
    };
    let times = times.parse().expect("a number of times");
    match operation.as_str() {
        "pick-64" => picks(64, times),
        "lookup-128" => lookups(&Scene::held_by_three(64, 128, 200), times),
        "lookup-conversations" => lookups(&Scene::conversations(64, 512, 200), times),
        "ingest" => ingest(times),
        unknown => panic!("no operation is called {unknown}"),
    }
}

/// What callgrind looks at. Never inlined: it is found by its name.
#[inline(never)]
fn measured(work: &mut dyn FnMut()) {
    work();
}

fn picks(workers: usize, times: usize) {
    let mut fleet = Fleet::new(Scene::conversations(workers, 4096, 2000));
    measured(&mut || {
        for _ in 0..times {
            fleet.pick();
            fleet.settle();
        }
    });
}

fn lookups(scene: &Scene, times: usize) {
    let mut indexed = Indexed::of(scene);
    measured(&mut || {
        for prompt in scene.prompts.iter().cycle().take(times) {
            black_box(indexed.look_up(&prompt.chain));
        }
    });
}

/// The last so many block operations of a stream, give or take an event.
fn ingest(times: usize) {
    let scene = Scene::conversations(64, 512, 0);
    let mut last = scene.events.len();
    let mut operations = 0;
    while operations < times && last > 0 {
        last -= 1;
        operations += block_operations(&scene.events[last]);
    }
    let (before, counted) = scene.events.split_at(last);
    let mut indexed = Indexed::empty(scene.workers);
    indexed.apply(before);
    measured(&mut || indexed.apply(counted));
}
