//! What is stored is what queries find.

use checkpoint::config::{Architecture, ModelConfig, RopePairs};
use contract::random::{mix, unit};

use super::{KvAddress, KvCache};
use crate::buffer::Rows;
use crate::kernels::Isa;
use crate::kernels::attention::{CachedHead, Query, TOGETHER};
use crate::layout::LANES;

const HEADS: usize = 2;
/// Not whole lanes.
const HEAD_SIZE: usize = 24;
const POSITIONS: usize = 11;

fn config() -> ModelConfig {
    ModelConfig {
        architecture: Architecture::Llama,
        name: "test".to_owned(),
        layers: 1,
        hidden: HEADS * HEAD_SIZE,
        feed_forward: 32,
        heads: HEADS,
        kv_heads: HEADS,
        head_size: HEAD_SIZE,
        vocabulary: 10,
        context: 64,
        norm_epsilon: 1e-5,
        rope_theta: 1e4,
        rope_pairs: RopePairs::Halves,
        rope_divisors: None,
        tied_embeddings: true,
        qkv_bias: false,
    }
}

/// Number `at` of stream `of`.
fn number(of: u64, at: usize) -> f32 {
    unit(mix(3, of, at as u64)) as f32 - 0.5
}

fn row(of: u64, position: usize) -> Vec<f32> {
    let width = HEADS * HEAD_SIZE;
    (0..width)
        .map(|at| number(of, position * width + at))
        .collect()
}

const KEYS: u64 = 1;
const VALUES: u64 = 2;
const QUERIES: u64 = 3;

/// What a query of a head finds in the first `sees` positions.
fn expected(head: usize, query: usize, sees: usize) -> Vec<f64> {
    let at = |of, position| row(of, position)[head * HEAD_SIZE..][..HEAD_SIZE].to_vec();
    let asked = at(QUERIES, query);
    let (mut found, mut total) = (vec![0.0; HEAD_SIZE], 0.0);
    for position in 0..sees {
        let key = at(KEYS, position);
        let pairs = key.iter().zip(&asked);
        let score: f64 = pairs.map(|(k, q)| f64::from(*k) * f64::from(*q)).sum();
        let weight = (score / (HEAD_SIZE as f64).sqrt()).exp();
        total += weight;
        for (found, value) in found.iter_mut().zip(at(VALUES, position)) {
            *found += weight * f64::from(value);
        }
    }
    found.iter().map(|sum| sum / total).collect()
}

/// A sequence whose blocks lie in any order, and queries that see more and more of it.
fn check(isa: Isa, block_size: usize, queries: usize) {
    let count = POSITIONS.div_ceil(block_size) as u32;
    let blocks: Vec<u32> = (0..count).rev().collect();
    let cache = KvCache::new(&config(), block_size, count as usize).unwrap();
    for position in 0..POSITIONS {
        let place = KvAddress {
            block: blocks[position / block_size],
            offset: position % block_size,
        };
        // SAFETY: there is one thread.
        unsafe { cache.store(0, place, &row(KEYS, position), &row(VALUES, position)) };
    }
    let outputs = Rows::new(queries, HEADS * 32).unwrap();
    let stride = (POSITIONS + block_size).next_multiple_of(LANES) + 2 * LANES;
    let mut scores = vec![f32::NAN; TOGETHER * stride];
    let asked: Vec<Vec<f32>> = (0..queries).map(|query| row(QUERIES, query)).collect();
    let view = cache.layer(0);
    let sees = |query: usize| POSITIONS - queries + query + 1;
    for head in 0..HEADS {
        let together: Vec<Query> = (0..queries)
            .map(|query| Query {
                from: asked[query][head * HEAD_SIZE..].as_ptr(),
                to: outputs.address(query).wrapping_add(head * 32),
                sees: sees(query),
            })
            .collect();
        let place = CachedHead {
            cache: &view,
            head,
            blocks: &blocks,
        };
        // SAFETY: queries have a head's numbers, outputs those of a padded head, and there is one
        // thread.
        unsafe { isa.attend(place, &together, &mut scores, stride) };
    }
    for query in 0..queries {
        // SAFETY: there is one thread.
        let found = unsafe { outputs.row(query) };
        for head in 0..HEADS {
            let found = &found[head * 32..];
            for (expected, found) in expected(head, query, sees(query)).iter().zip(found) {
                let error = (f64::from(*found) - expected).abs();
                assert!(error < 1e-5, "{found} for {expected}");
            }
        }
    }
}

#[test]
fn queries_find_what_was_stored_wherever_blocks_lie() {
    for isa in Isa::available() {
        for block_size in [4, 16, 32] {
            check(isa, block_size, 4);
        }
        for queries in [1, TOGETHER] {
            check(isa, 4, queries);
        }
    }
}

#[test]
#[should_panic(expected = "block < view.blocks")]
fn a_block_that_is_not_there_is_refused() {
    let cache = KvCache::new(&config(), 4, 2).unwrap();
    let place = KvAddress {
        block: 2,
        offset: 0,
    };
    // SAFETY: there is one thread.
    unsafe { cache.store(0, place, &row(KEYS, 0), &row(VALUES, 0)) };
}

#[test]
#[should_panic(expected = "< cache.blocks")]
fn a_sequence_with_a_block_that_is_not_there_is_refused() {
    let cache = KvCache::new(&config(), 4, 2).unwrap();
    let view = cache.layer(0);
    let (from, mut to) = (row(QUERIES, 0), vec![0.0; 32]);
    let query = Query {
        from: from.as_ptr(),
        to: to.as_mut_ptr(),
        sees: 5,
    };
    let place = CachedHead {
        cache: &view,
        head: 0,
        blocks: &[0, 2],
    };
    let mut scores = vec![0.0; 64];
    // SAFETY: as above.
    unsafe { Isa::PORTABLE.attend(place, &[query], &mut scores, 64) };
}
