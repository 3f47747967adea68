//! Several members compute what one computes alone. Miri runs this too: steps of a whole model, but
//! a small one, so that no phase shares more than it may.

use std::sync::Arc;

use checkpoint::Format;
use checkpoint::config::{Architecture, ModelConfig, RopePairs};

use super::{LoadedWeights, Model, ModelOptions};
use crate::kernels::Isa;
use crate::matrix::tests::stored;
use crate::matrix::{Matrix, Packer};
use crate::plan::Plan;
use crate::weights::{Layer, Weights};

const BLOCK_SIZE: usize = 4;
const HIDDEN: usize = 32;
const INNER: usize = 32;
const HEADS: usize = 2;
const HEAD_SIZE: usize = 8;
const VOCABULARY: usize = 16;

fn matrix(rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut packer = Packer::new(Format::F32, rows, columns);
    let bytes = stored(Format::F32, rows, columns, seed);
    packer.rows(0, &bytes).unwrap();
    packer.finish()
}

fn weights() -> LoadedWeights {
    let config = ModelConfig {
        architecture: Architecture::Qwen2,
        name: "test".to_owned(),
        layers: 1,
        hidden: HIDDEN,
        feed_forward: INNER,
        heads: HEADS,
        kv_heads: 1,
        head_size: HEAD_SIZE,
        vocabulary: VOCABULARY,
        context: 32,
        norm_epsilon: 1e-5,
        rope_theta: 1e4,
        rope_pairs: RopePairs::Halves,
        rope_divisors: None,
        tied_embeddings: true,
        qkv_bias: true,
    };
    let layer = Layer {
        attention_norm: vec![1.0; HIDDEN],
        qkv: [
            matrix(HEADS * HEAD_SIZE, HIDDEN, 1),
            matrix(HEAD_SIZE, HIDDEN, 2),
            matrix(HEAD_SIZE, HIDDEN, 3),
        ],
        qkv_bias: Some([HEADS * HEAD_SIZE, HEAD_SIZE, HEAD_SIZE].map(|width| vec![0.1; width])),
        attention_output: matrix(HIDDEN, HEADS * HEAD_SIZE, 4),
        feed_forward_norm: vec![1.0; HIDDEN],
        gate: matrix(INNER, HIDDEN, 5),
        up: matrix(INNER, HIDDEN, 6),
        down: matrix(HIDDEN, INNER, 7),
    };
    LoadedWeights {
        config,
        weights: Arc::new(Weights {
            embeddings: matrix(VOCABULARY, HIDDEN, 100),
            layers: vec![layer],
            norm: vec![1.0; HIDDEN],
            head: None,
        }),
    }
}

fn model(weights: &LoadedWeights, threads: usize) -> Model {
    let options = ModelOptions {
        block_size: BLOCK_SIZE,
        blocks: 12,
        step_tokens: 24,
        outputs: 4,
        context: 32,
        threads,
        isa: Isa::detect(),
        taps: vec![0],
    };
    Model::new(weights, options).unwrap()
}

/// Bits of every output and of the states that were kept.
fn bits(model: &Model, plan: &Plan) -> Vec<Vec<u32>> {
    let outputs = (0..plan.outputs.len()).map(|output| model.logits(output));
    let states = (0..plan.tokens.len()).map(|token| model.tapped(0, token));
    let bits = |row: &[f32]| row.iter().map(|number| number.to_bits()).collect();
    outputs.chain(states).map(bits).collect()
}

#[test]
fn several_members_compute_what_one_computes() {
    let weights = weights();
    let (mut alone, mut together) = (model(&weights, 1), model(&weights, 3));
    let mut plan = Plan::new(BLOCK_SIZE);
    // More tokens than one member would keep to itself, then steps of few.
    plan.push((0..9).map(|at| at * 7 % 16), 0, [5, 2, 7], 1);
    for position in 9..11 {
        alone.forward(&plan);
        together.forward(&plan);
        assert_eq!(bits(&alone, &plan), bits(&together, &plan));
        plan.clear();
        plan.push([3], position, [5, 2, 7], 1);
        plan.push([4], position - 9, [1, 3], 1);
    }
}

/// Sequences with a common beginning share its blocks, and may compute the same position of one.
#[test]
fn tokens_that_share_a_place_agree() {
    let weights = weights();
    let mut model = model(&weights, 3);
    let mut plan = Plan::new(BLOCK_SIZE);
    let blocks = || [8, 9, 4];
    plan.push(0..9, 0, blocks(), 1);
    plan.push(0..9, 0, blocks(), 1);
    model.forward(&plan);
    assert_eq!(model.logits(0), model.logits(1));
    let shared = model.logits(0).to_vec();
    plan.clear();
    plan.push(0..9, 0, [0, 1, 2], 1);
    model.forward(&plan);
    assert_eq!(model.logits(0), shared);
}
