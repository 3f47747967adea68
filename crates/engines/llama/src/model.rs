//! A model that computes: tokens and block tables in, distributions out.
//!
//! A step is a sequence of phases; in each, members of the team take their share of rows,
//! stripes or heads, and all wait for each other. What a token gets does not depend on what
//! else is in the step: every sum has one order, whoever computes it.

#![expect(
    unsafe_code,
    reason = "members of a team share buffers by rows, stripes and heads"
)]

pub(crate) mod phases;
#[cfg(test)]
mod tests;
pub(crate) mod workspace;

use std::sync::Arc;

use self::phases::Phases;
use self::workspace::Workspace;
use crate::cache::KvCache;
use crate::kernels::Isa;
use crate::matrix::Matrix;
use crate::plan::Plan;
use crate::rope::Rope;
use crate::team::Team;
use crate::weights::{self, Weights, WeightsError};
use checkpoint::{Checkpoint, ModelConfig};

/// What a model is given to work with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOptions {
    /// Tokens to a block.
    pub block_size: usize,
    pub blocks: usize,
    /// Tokens in one step.
    pub step_tokens: usize,
    /// Distributions in one step.
    pub outputs: usize,
    /// Longest sequence.
    pub context: usize,
    pub threads: usize,
    pub isa: Isa,
    /// Layers on entry to which the residual stream is kept, ascending.
    pub taps: Vec<usize>,
}

/// Weights in memory, and the shape that they fill. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LoadedWeights {
    config: ModelConfig,
    weights: Arc<Weights>,
}

impl LoadedWeights {
    /// Loads a checkpoint. `progress` is told how many more bytes are done.
    pub fn load(
        checkpoint: &Checkpoint,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            config: checkpoint.config().clone(),
            weights: Arc::new(weights::load(checkpoint, progress)?),
        })
    }

    /// Memory that a checkpoint's weights take when they are loaded.
    pub fn bytes_of(checkpoint: &Checkpoint) -> u64 {
        weights::bytes_of(checkpoint)
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Memory that they take.
    pub fn bytes(&self) -> usize {
        self.weights.bytes()
    }
}

/// A model with its cache.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    weights: Arc<Weights>,
    rope: Rope,
    cache: KvCache,
    workspace: Workspace,
    team: Team,
    options: ModelOptions,
}

impl Model {
    /// A model with weights that others may use too.
    pub fn new(weights: &LoadedWeights, options: ModelOptions) -> Result<Self, WeightsError> {
        let LoadedWeights { config, weights } = weights.clone();
        Ok(Self {
            rope: Rope::new(&config, options.context),
            cache: KvCache::new(&config, options.block_size, options.blocks)?,
            workspace: Workspace::new(&config, &options, 0)?,
            team: Team::new(options.threads).map_err(WeightsError::Threads)?,
            config,
            weights,
            options,
        })
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// Memory of the weights.
    pub fn weight_bytes(&self) -> usize {
        self.weights.bytes()
    }

    /// Memory of one block.
    pub fn block_bytes(config: &ModelConfig, block_size: usize) -> usize {
        KvCache::block_bytes(config, block_size)
    }

    /// Computes a step. Afterwards [`logits`](Self::logits) has a row for each output.
    pub fn forward(&mut self, plan: &Plan) {
        assert!(plan.tokens.len() <= self.options.step_tokens, "tokens fit");
        assert!(plan.outputs.len() <= self.options.outputs, "outputs fit");
        self.workspace.prepare(&self.config, plan);
        let mut phases = Phases {
            config: &self.config,
            rope: &self.rope,
            cache: &self.cache,
            space: &self.workspace,
            isa: self.options.isa,
            plan,
            team: &mut self.team,
        };
        phases.embed(&self.weights.embeddings);
        for (index, layer) in self.weights.layers.iter().enumerate() {
            if let Some(tap) = self.options.taps.iter().position(|tap| *tap == index) {
                phases.keep(&self.workspace.taps[tap]);
            }
            phases.attention(index, layer);
            phases.feed_forward(layer);
        }
        phases.distributions(&self.weights.norm, self.weights.head());
    }

    /// The distribution after output `index` of the last plan, as logarithms without a sum.
    pub fn logits(&self, index: usize) -> &[f32] {
        // SAFETY: only `forward` writes, which needs the model for itself and returns after all
        // members have finished.
        let row = unsafe { self.workspace.logits.row(index) };
        &row[..self.config.vocabulary]
    }

    /// The residual stream at token `index` of the last plan, on entry to the layer of `tap`.
    pub fn tapped(&self, tap: usize, index: usize) -> &[f32] {
        // SAFETY: as for `logits`.
        let row = unsafe { self.workspace.taps[tap].row(index) };
        &row[..self.config.hidden]
    }

    /// The table of embeddings, which a draft head may share.
    pub(crate) fn embeddings(&self) -> &Matrix {
        &self.weights.embeddings
    }
}
