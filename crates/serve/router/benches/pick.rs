//! Criterion: what a pick costs in steady state, with everything that belongs to it.
//!
//! One iteration places a request of 4,000 tokens, reports another's first token and
//! releases a third, so the books stay as full as they were. Percentiles of the pick alone
//! are in `percentiles.rs`: criterion gives means.

#[path = "support/fleet.rs"]
mod fleet;
#[path = "support/scene.rs"]
mod scene;

use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fleet::Fleet;
use scene::Scene;

fn picks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pick");
    group
        .throughput(Throughput::Elements(1))
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(50);
    for (workers, cache_blocks) in [(64, 8192), (1000, 1024)] {
        let mut fleet = Fleet::new(Scene::conversations(workers, cache_blocks, 2000));
        group.bench_function(format!("{workers}-workers"), |bencher| {
            bencher.iter(|| {
                fleet.pick();
                fleet.settle();
            });
        });
    }
    group.finish();
}

criterion_group!(benches, picks);
criterion_main!(benches);
