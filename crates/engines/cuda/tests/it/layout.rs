//! What a token gets does not depend on chunks, blocks, company or padding.

use cuda::Storage;
use cuda::staging::{StagedRow, Staging};
use cuda::weights::CacheDtype;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::{load, logits, small};

/// Equal cases in every run: sums that are nearly equal must not fail one run in a thousand.
fn cases(count: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(26),
        ..ProptestConfig::with_cases(count)
    }
}

fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    let bits = |row: &Vec<f32>| row.iter().map(|value| value.to_bits()).collect();
    rows.iter().map(bits).collect()
}

const STORAGES: [Storage; 3] = [
    Storage::Exact,
    Storage::Bf16 {
        cache: CacheDtype::Fp8,
    },
    Storage::Fp8 {
        cache: CacheDtype::Bf16,
    },
];

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn chunks_and_blocks_change_nothing(
        name in prop::sample::select(vec!["llama-head-dim", "qwen2"]),
        storage in prop::sample::select(STORAGES.to_vec()),
        tokens in prop::collection::vec(0u32..100, 1..90),
        piece in 1usize..70,
        blocks in Just((0..8u32).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut model = load(name, storage, small(8));
        let expected = logits(&mut model, &tokens, &[0, 1, 2], 256);
        let mut other = load(name, storage, small(8));
        let found = logits(&mut other, &tokens, &blocks[..3], piece);
        prop_assert_eq!(bits(&expected), bits(&found));
    }

    /// Several sequences in one step: spans, single rows and padding, with blocks that others filled.
    #[test]
    fn company_padding_and_a_shared_prefix_change_nothing(
        storage in prop::sample::select(STORAGES.to_vec()),
        shared in prop::collection::vec(0u32..100, 32),
        ends in prop::collection::vec(prop::collection::vec(0u32..100, 2..40), 1..5),
        single in 0usize..16,
    ) {
        let name = "llama-head-dim";
        let mut model = load(name, storage, small(16));
        let blocks: Vec<[u32; 3]> = (0..4).map(|index| [15, 2 * index + 1, 2 * index]).collect();
        let mut expected = Vec::new();
        for (end, blocks) in ends.iter().zip(&blocks) {
            let text: Vec<u32> = shared.iter().chain(end).copied().collect();
            expected.push(logits(&mut model, &text, blocks, 256).pop().unwrap());
        }
        let mut model = load(name, storage, small(16));
        logits(&mut model, &shared, &[15], 9);
        let mut staging = Staging::default();
        // Those of `single` first compute all but their last token, so that one row is left.
        let mut rows = Vec::new();
        for (index, (end, blocks)) in ends.iter().zip(&blocks).enumerate() {
            let done = if single >> index & 1 == 1 { end.len() - 1 } else { 0 };
            if done > 0 {
                let row = StagedRow {
                    tokens: &end[..done],
                    drafts: &[],
                    start: 32,
                    blocks,
                    outputs: 0,
                    draws: &[],
                };
                staging.fill(&[row], 256);
                model.forward(&staging).unwrap();
            }
            rows.push(StagedRow {
                tokens: &end[done..],
                drafts: &[],
                start: 32 + done,
                blocks,
                outputs: 1,
                draws: &[],
            });
        }
        staging.fill(&rows, 256);
        model.forward(&staging).unwrap();
        for (index, expected) in expected.iter().enumerate() {
            let mut found = Vec::new();
            model.read_logits(staging.first_output(index), 1, &mut found).unwrap();
            prop_assert_eq!(bits(&[found]), bits(std::slice::from_ref(expected)));
        }
    }
}
