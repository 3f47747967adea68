//! The whole engine on the twin: against other implementations, and against the CPU's engine.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fp8;
#[path = "../../../llama/tests/it/fp8_folder.rs"]
mod fp8_folder;
mod golden;
mod layout;
mod memory;
mod same_answers;

use std::path::{Path, PathBuf};

use checkpoint::Checkpoint;
use cuda::staging::{StagedRow, Staging};
use cuda::{HostOps, LoadedWeights, Model, ModelOptions, Storage};

/// The models with golden values: heads of 8, 16 and 24.
const MODELS: [&str; 4] = ["llama-gqa", "llama-rope-scaled", "llama-head-dim", "qwen2"];

/// A folder of golden values, which the engines share.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../llama/tests/golden")
        .join(name)
}

/// Memory for any of the models.
fn host() -> HostOps {
    HostOps::new(256 << 20)
}

/// Room for a few short sequences.
fn small(blocks: usize) -> ModelOptions {
    ModelOptions {
        slots: 4,
        step_tokens: 256,
        outputs: 256,
        context: 256,
        blocks,
    }
}

fn load(name: &str, storage: Storage, options: ModelOptions) -> Model<HostOps> {
    let checkpoint = Checkpoint::open(&golden(name)).unwrap();
    let mut ops = host();
    let weights = LoadedWeights::load(&mut ops, &checkpoint, storage, &mut |_| ()).unwrap();
    Model::new(ops, &weights, options).unwrap()
}

/// The logits after every token of `tokens`, computed in pieces of `piece`.
fn logits(
    model: &mut Model<HostOps>,
    tokens: &[u32],
    blocks: &[u32],
    piece: usize,
) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    let mut staging = Staging::default();
    let (context, vocabulary) = (model.options().context, model.config().vocabulary);
    for (index, tokens) in tokens.chunks(piece).enumerate() {
        let row = StagedRow {
            tokens,
            drafts: &[],
            start: index * piece,
            blocks,
            outputs: tokens.len(),
            draws: &[],
        };
        staging.fill(&[row], context);
        model.forward(&staging).unwrap();
        let mut numbers = Vec::new();
        model.read_logits(0, tokens.len(), &mut numbers).unwrap();
        all.extend(numbers.chunks_exact(vocabulary).map(<[f32]>::to_vec));
    }
    all
}
