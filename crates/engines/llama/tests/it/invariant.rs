//! What a token gets does not depend on what else is computed, how, or where.

use llama::{Isa, Plan};
use proptest::prelude::*;

use crate::{golden, load, logits, small};

fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let bits = |row: &Vec<f32>| row.iter().map(|value| value.to_bits()).collect();
    rows.iter().map(bits).collect()
}

/// Different ids below `count`, in an order that depends on the seed.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..count).collect();
    let mut state = seed | 1;
    for end in (1..ids.len()).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        ids.swap(end, (state >> 33) as usize % (end + 1));
    }
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn chunks_blocks_threads_and_processors_change_nothing(
        name in prop::sample::select(vec!["llama-gqa", "llama-head-dim", "qwen2"]),
        tokens in prop::collection::vec(0u32..100, 1..70),
        piece in 1usize..70,
        block_size in prop::sample::select(vec![1usize, 8, 13, 16, 32, 64]),
        threads in 1usize..4,
        isa in prop::sample::select(Isa::available()),
        seed: u64,
    ) {
        let mut model = load(&golden(name), small(32));
        let expected = logits(&mut model, &tokens, &[0, 1, 2], 256);
        let options = llama::ModelOptions { threads, isa, ..small(block_size) };
        let blocks = shuffled(options.blocks as u32, seed);
        let mut other = load(&golden(name), options);
        let blocks = &blocks[..70usize.div_ceil(block_size)];
        let found = logits(&mut other, &tokens, blocks, piece);
        prop_assert_eq!(bits(&expected), bits(&found));
    }

    /// Three sequences in one step, one of which continues from blocks that another filled.
    #[test]
    fn company_and_a_shared_prefix_change_nothing(
        first in prop::collection::vec(0u32..100, 33..60),
        second in prop::collection::vec(0u32..100, 1..40),
        third in prop::collection::vec(0u32..100, 1..40),
        threads in 1usize..3,
    ) {
        let options = llama::ModelOptions { threads, ..small(16) };
        let mut model = load(&golden("llama-gqa"), options);
        let mut joined = first[..32].to_vec();
        joined.extend(&second);
        let alone = logits(&mut model, &joined, &[20, 21, 22, 23, 24], 256);
        let stranger = logits(&mut model, &third, &[30, 31, 32], 256);
        logits(&mut model, &first, &[40, 41, 42, 43], 7);
        let mut plan = Plan::new(16);
        plan.push(third.iter().copied(), 0, [50, 51, 52], third.len());
        plan.push(second.iter().copied(), 32, [40, 41, 60, 61, 62], second.len());
        plan.push(first.iter().copied(), 0, [10, 11, 12, 13], 1);
        model.forward(&plan);
        let rows = |from: usize, count: usize| -> Vec<Vec<f32>> {
            (from..from + count).map(|output| model.logits(output).to_vec()).collect()
        };
        prop_assert_eq!(bits(&rows(0, third.len())), bits(&stranger));
        prop_assert_eq!(bits(&rows(third.len(), second.len())), bits(&alone[32..]));
    }
}
