//! How much memory the prefix index takes, counted by the allocator.
//!
//! Prints `name<TAB>value`, in bytes per block, and how long the stream of events is. A block
//! that several workers hold counts once.

#![expect(clippy::print_stdout, reason = "prints its figures")]

#[path = "support/counting.rs"]
mod counting;
#[path = "support/index.rs"]
mod indexed;
#[path = "support/scene.rs"]
mod scene;

use contract::BlockHash;
use contract::random::mix;
use counting::bytes_in_use;
use indexed::Indexed;
use scene::Scene;

/// Below it, the fixed parts weigh more than the entries.
const FEWEST: u64 = 1000;
const MOST: u64 = 2_000_000;

fn main() {
    let scene = Scene::conversations(64, 8192, 0);
    println!("ingest-operations\t{}", scene.block_operations());
    let before = bytes_in_use();
    let indexed = Indexed::of(&scene);
    let bytes = bytes_in_use() - before;
    println!(
        "bytes-conversations\t{:.1}",
        bytes as f64 / indexed.index.len() as f64
    );
    println!("bytes-worst-fill\t{:.1}", worst_fill());
}

/// The most bytes per block while an index of 64 workers fills up.
fn worst_fill() -> f64 {
    let before = bytes_in_use();
    let mut indexed = Indexed::empty(64);
    let mut worst = 0.0_f64;
    for number in 1..=MOST {
        let block = BlockHash(mix(6, 0, number));
        indexed.index.insert(number as usize % 64, block);
        if number >= FEWEST {
            worst = worst.max((bytes_in_use() - before) as f64 / number as f64);
        }
    }
    worst
}
