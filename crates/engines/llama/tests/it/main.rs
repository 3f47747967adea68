//! The engine's models against other implementations, and against themselves.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fp8;
mod fp8_folder;
mod golden;
mod invariant;

use std::path::{Path, PathBuf};

use checkpoint::Checkpoint;
use llama::{Isa, LoadedWeights, Model, ModelOptions, Plan};

/// A folder of golden values.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn load(path: &Path, options: ModelOptions) -> Model {
    let checkpoint = Checkpoint::open(path).unwrap();
    let weights = LoadedWeights::load(&checkpoint, &mut |_| ()).unwrap();
    Model::new(&weights, options).unwrap()
}

/// Room for a few short sequences.
fn small(block_size: usize) -> ModelOptions {
    ModelOptions {
        block_size,
        blocks: 1024_usize.div_ceil(block_size),
        step_tokens: 256,
        outputs: 256,
        context: 512,
        threads: 2,
        isa: Isa::detect(),
        taps: Vec::new(),
    }
}

/// The logits after every token of `tokens`, computed in pieces of `piece`.
fn logits(model: &mut Model, tokens: &[u32], blocks: &[u32], piece: usize) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    let mut plan = Plan::new(model.options().block_size);
    for (index, piece_tokens) in tokens.chunks(piece).enumerate() {
        plan.clear();
        let count = piece_tokens.len();
        plan.push(
            piece_tokens.iter().copied(),
            index * piece,
            blocks.iter().copied(),
            count,
        );
        model.forward(&plan);
        all.extend((0..count).map(|output| model.logits(output).to_vec()));
    }
    all
}

/// The index of the largest.
fn best(logits: &[f32]) -> u32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter().position(|logit| *logit == largest).unwrap() as u32
}
