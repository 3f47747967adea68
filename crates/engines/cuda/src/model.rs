//! A model that computes: tokens and block tables in, distributions out.
//!
//! All memory is allocated at the start. A step whose sequences have one row each is recorded by the
//! device and replayed; every other one is computed operation by operation.

mod step;
mod workspace;

use crate::cache::{CacheError, KvPool, block_bytes};
use crate::numbers::{decode, encode};
use crate::ops::{Draw, Dtype, Gemm, Ops, OpsError};
use crate::staging::{Staging, padded};
use crate::weights::{LoadedWeights, Storage};
use checkpoint::ModelConfig;
use step::Step;
use workspace::Workspace;

/// Why a model does not fit on the device.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Ops(#[from] OpsError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

/// What a model is given to work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelOptions {
    /// Sequences in one step.
    pub slots: usize,
    /// Tokens in one step.
    pub step_tokens: usize,
    /// Distributions in one step.
    pub outputs: usize,
    /// Longest sequence.
    pub context: usize,
    /// Of the cache.
    pub blocks: usize,
}

/// A model with its cache.
#[derive(Debug)]
pub struct Model<O: Ops> {
    ops: O,
    loaded: LoadedWeights<O::Buffer>,
    /// Of all positions.
    angles: O::Buffer,
    cache: KvPool<O::Buffer>,
    space: Workspace<O::Buffer>,
    options: ModelOptions,
    /// On the way to and from the device.
    bytes: Vec<u8>,
}

impl<O: Ops> Model<O> {
    /// A model with weights that others may use too.
    pub fn new(
        mut ops: O,
        weights: &LoadedWeights<O::Buffer>,
        options: ModelOptions,
    ) -> Result<Self, ModelError> {
        let loaded = weights.clone();
        let mut bytes = Vec::new();
        encode(
            Dtype::F32,
            &loaded.config.rope_angles(options.context),
            &mut bytes,
        );
        let angles = ops.allocate(bytes.len())?;
        ops.write(&angles, 0, &bytes)?;
        let shape = (&loaded.config, loaded.storage);
        let space = Workspace::new(&mut ops, shape, &options)?;
        let cache = KvPool::new(&mut ops, shape, options.blocks, options.context)?;
        let mut model = Self {
            angles,
            cache,
            space,
            ops,
            loaded,
            options,
            bytes,
        };
        model.prepare()?;
        Ok(model)
    }

    /// Finds the fastest products, so that no request waits for that. All layers have the same shapes.
    fn prepare(&mut self) -> Result<(), OpsError> {
        let (space, weights) = (&self.space, &self.loaded.weights);
        let (rows, outputs) = workspace::rows_and_outputs(&self.options);
        if let Some(layer) = weights.layers.first() {
            for (input, weight, out) in [
                (&space.normed, &layer.qkv, &space.qkv),
                (&space.attended, &layer.attention_output, &space.addition),
                (&space.normed, &layer.gate_up, &space.gate_up),
                (&space.gated, &layer.down, &space.addition),
            ] {
                let out = out.activations();
                self.ops.prepare(Gemm {
                    rows,
                    input: input.activations(),
                    weight,
                    out: out.values,
                    out_dtype: out.dtype,
                })?;
            }
        }
        self.ops.prepare(Gemm {
            rows: outputs,
            input: space.last.activations(),
            weight: weights.head(),
            out: &space.logits,
            out_dtype: Dtype::F32,
        })
    }

    /// Memory that a model takes besides weights and cache. What its device takes is not in it.
    pub fn workspace_bytes(
        config: &ModelConfig,
        storage: Storage,
        options: &ModelOptions,
    ) -> usize {
        let angles = options.context * config.head_size * 4;
        workspace::bytes(config, storage, options) + angles
    }

    pub fn config(&self) -> &ModelConfig {
        &self.loaded.config
    }

    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// Memory of the weights.
    pub fn weight_bytes(&self) -> usize {
        self.loaded.bytes()
    }

    /// Memory of one block.
    pub fn block_bytes(&self) -> usize {
        block_bytes(&self.loaded.config, self.loaded.storage)
    }

    /// Blocks of the cache.
    pub fn blocks(&self) -> usize {
        self.cache.blocks()
    }

    pub fn ops(&self) -> &O {
        &self.ops
    }

    /// Begins a step. What is read afterwards is of it.
    pub fn forward(&mut self, staging: &Staging) -> Result<(), OpsError> {
        let shape = staging.shape();
        let most = padded(self.options.slots);
        assert!(
            shape.rows <= self.options.step_tokens.max(most),
            "tokens fit"
        );
        assert!(
            shape.outputs <= self.options.outputs.max(most),
            "outputs fit"
        );
        let inputs = staging.upload(&mut self.ops, &self.space.upload)?;
        let step = Step {
            config: &self.loaded.config,
            weights: &self.loaded.weights,
            angles: &self.angles,
            cache: &self.cache,
            space: &self.space,
            inputs: &inputs,
            shape,
            spans: staging.spans(),
        };
        match shape.is_recorded {
            true => self.ops.recorded(shape.key(), &mut |ops| step.run(ops)),
            false => step.run(&mut self.ops),
        }
    }

    /// Draws the tokens of the step that was begun with `staging`: one for each of its outputs,
    /// [`PADDING`](crate::ops::PADDING) where nothing is drawn or a number is none.
    pub fn draw(&mut self, staging: &Staging, tokens: &mut Vec<u32>) -> Result<(), OpsError> {
        let outputs = staging.shape().outputs;
        let draws = staging.draws(&self.ops, &self.space.upload);
        self.ops.draw(Draw {
            rows: outputs,
            vocabulary: self.loaded.config.vocabulary,
            logits: &self.space.logits,
            draws: &draws,
            tokens: &self.space.drawn,
        })?;
        self.bytes.resize(4 * outputs, 0);
        self.ops.read(&self.space.drawn, 0, &mut self.bytes)?;
        tokens.clear();
        let numbers = self.bytes.as_chunks().0.iter().copied();
        tokens.extend(numbers.map(u32::from_le_bytes));
        Ok(())
    }

    /// Appends distributions `first` to `first + count` of the step, as logarithms without a sum.
    pub fn read_logits(
        &mut self,
        first: usize,
        count: usize,
        logits: &mut Vec<f32>,
    ) -> Result<(), OpsError> {
        let row = 4 * self.loaded.config.vocabulary;
        self.bytes.resize(count * row, 0);
        self.ops
            .read(&self.space.logits, first * row, &mut self.bytes)?;
        decode(Dtype::F32, &self.bytes, logits);
        Ok(())
    }
}
