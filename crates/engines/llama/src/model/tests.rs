//! Several members compute what one computes alone. Miri runs this too: a step of a whole model, so
//! that no phase shares more than it may.

use std::path::Path;

use checkpoint::Checkpoint;

use super::{LoadedWeights, Model, ModelOptions};
use crate::kernels::Isa;
use crate::plan::Plan;

const BLOCK_SIZE: usize = 4;

fn weights() -> LoadedWeights {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/qwen2");
    LoadedWeights::load(&Checkpoint::open(&folder).unwrap(), &mut |_| ()).unwrap()
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
        taps: vec![1],
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
    plan.push((0..9).map(|at| at * 7 % 50), 0, [5, 2, 7], 1);
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
