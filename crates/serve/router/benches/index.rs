//! Criterion: the prefix index alone, looking prompts up and taking events in.

#[path = "support/index.rs"]
mod indexed;
#[path = "support/scene.rs"]
mod scene;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use indexed::Indexed;
use scene::Scene;

fn lookups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lookup");
    group
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30);
    for (name, scene) in [
        ("8-blocks-3-workers", Scene::held_by_three(3, 8, 2000)),
        ("128-blocks-3-workers", Scene::held_by_three(3, 128, 2000)),
        ("8-blocks-64-workers", Scene::held_by_three(64, 8, 2000)),
        ("128-blocks-64-workers", Scene::held_by_three(64, 128, 2000)),
        ("one-prompt", Scene::held_by_three(3, 128, 1)),
        ("miss", Scene::held_by_three(64, 128, 2000).missed()),
        ("conversations", Scene::conversations(64, 8192, 2000)),
    ] {
        let mut indexed = Indexed::of(&scene);
        let mut prompts = scene.prompts.iter().cycle();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                if let Some(prompt) = prompts.next() {
                    black_box(indexed.look_up(&prompt.chain));
                }
            });
        });
    }
    group.finish();
}

fn ingest(criterion: &mut Criterion) {
    let scene = Scene::conversations(64, 8192, 0);
    let mut group = criterion.benchmark_group("ingest");
    group
        .throughput(Throughput::Elements(scene.block_operations() as u64))
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3))
        .sample_size(15);
    group.bench_function("from-empty", |bencher| {
        bencher.iter_batched_ref(
            || Indexed::empty(scene.workers),
            |indexed| indexed.apply(&scene.events),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, lookups, ingest);
criterion_main!(benches);
