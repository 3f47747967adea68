//! A head that drafts from the target's own states: EAGLE-3.
//!
//! One decoder layer. At a position it sees the target's state there (three taps, fused) beside
//! the embedding of the token that follows, and says which token comes after that. Later drafts
//! of a chain take the layer's own output in the place of the target's state. Embeddings may be the
//! target's.

#![expect(unsafe_code, reason = "members of a team share buffers by rows")]

mod load;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use checkpoint::{HeadFiles, ModelConfig};
use contract::TokenId;

use crate::buffer::{OutOfMemory, Rows};
use crate::cache::KvCache;
use crate::kernels::{Isa, Norm};
use crate::layout::LANES;
use crate::matrix::Matrix;
use crate::model::ModelOptions;
use crate::model::phases::Phases;
use crate::model::workspace::{Activations, Workspace};
use crate::plan::Plan;
use crate::rope::Rope;
use crate::team::Team;
use crate::weights::{Layer, WeightsError};
use sampling::likeliest;

/// A head's weights and shape.
#[derive(Debug)]
pub(crate) struct HeadWeights {
    pub(crate) config: ModelConfig,
    /// Layers of the target on entry to which it is tapped.
    pub(crate) taps: Vec<usize>,
    pub(crate) target_hidden: usize,
    pub(crate) norm_before_residual: bool,
    pub(crate) fuse: Matrix,
    pub(crate) hidden_norm: Vec<f32>,
    /// Its attention norm is that of the embedding.
    pub(crate) layer: Layer,
    pub(crate) norm: Vec<f32>,
    pub(crate) output: Matrix,
    /// The target's token for each of its own.
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) embeddings: Option<Matrix>,
}

/// A head in memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LoadedHead(Arc<HeadWeights>);

impl LoadedHead {
    /// Reads a head for `target`.
    pub fn load(files: &HeadFiles, target: &ModelConfig) -> Result<Self, WeightsError> {
        Ok(Self(Arc::new(load::load(files, target)?)))
    }

    /// Layers of the target on entry to which its states must be kept.
    pub fn taps(&self) -> &[usize] {
        &self.0.taps
    }

    /// Memory of one block of its cache.
    pub fn block_bytes(&self, block_size: usize) -> usize {
        KvCache::block_bytes(&self.0.config, block_size)
    }
}

/// A head with its cache, which has the same blocks as the target's.
#[derive(Debug)]
pub(crate) struct Head {
    weights: Arc<HeadWeights>,
    rope: Rope,
    cache: KvCache,
    space: Workspace,
    /// The target's taps side by side.
    tapped: Activations,
    /// The embedding and the state side by side.
    joined: Activations,
    team: Team,
    isa: Isa,
}

/// Where the states of a pass come from.
pub(crate) enum States<'a> {
    /// The target's taps: which of them, of which token of the plan.
    Target(&'a (dyn Fn(usize, usize) -> &'a [f32] + Sync)),
    /// The head's own outputs of the pass before, for each token of the plan.
    Own(&'a Rows),
}

impl Head {
    pub(crate) fn new(head: &LoadedHead, options: &ModelOptions) -> Result<Self, WeightsError> {
        let weights = Arc::clone(&head.0);
        let config = &weights.config;
        let taps = weights.taps.len() * weights.target_hidden;
        let widest = taps.max(2 * config.hidden);
        let options = ModelOptions {
            taps: Vec::new(),
            ..options.clone()
        };
        let new = |width| Activations::new(options.step_tokens, width);
        Ok(Self {
            rope: Rope::new(config, options.context),
            cache: KvCache::new(config, options.block_size, options.blocks)?,
            space: Workspace::new(config, &options, widest)?,
            tapped: new(taps)?,
            joined: new(2 * config.hidden)?,
            team: Team::new(options.threads).map_err(WeightsError::Threads)?,
            isa: options.isa,
            weights,
        })
    }

    /// How many states of the target it takes.
    pub(crate) fn taps(&self) -> usize {
        self.weights.taps.len()
    }

    /// Rows for outputs that outlive a pass.
    pub(crate) fn outputs(&self, rows: usize) -> Result<Rows, OutOfMemory> {
        Rows::new(rows, self.weights.config.hidden)
    }

    /// One pass. The plan's tokens are those that follow its positions; embeddings are the
    /// head's own or `shared`.
    pub(crate) fn pass(&mut self, plan: &Plan, states: &States<'_>, shared: &Matrix) {
        let weights = &self.weights;
        self.space.prepare(&weights.config, plan);
        let mut phases = Phases {
            config: &weights.config,
            rope: &self.rope,
            cache: &self.cache,
            space: &self.space,
            isa: self.isa,
            plan,
            team: &mut self.team,
        };
        let count = plan.tokens.len();
        match states {
            States::Target(tap) => {
                let (tapped, width, isa) = (&self.tapped, weights.target_hidden, self.isa);
                Phases::each_row(phases.team, count, |token| {
                    // SAFETY: a phase of rows; nobody else has this one of either buffer.
                    unsafe {
                        let row = tapped.values.row_mut(token).chunks_exact_mut(width);
                        for (index, to) in row.take(weights.taps.len()).enumerate() {
                            to.copy_from_slice(tap(index, token));
                        }
                        tapped.seal(isa, token);
                    }
                });
                phases.multiply(&[&weights.fuse], tapped, count, &self.space.residual);
            }
            States::Own(rows) => {
                for token in 0..count {
                    // SAFETY: no member works now, and whoever has the states in `rows` lends
                    // them for the pass, so nobody writes them.
                    let (from, to) =
                        unsafe { (rows.row(token), self.space.residual.row_mut(token)) };
                    to.copy_from_slice(from);
                }
            }
        }
        let embeddings = weights.embeddings.as_ref().unwrap_or(shared);
        let inputs = Inputs {
            weights,
            embeddings,
            space: &self.space,
            joined: &self.joined,
            isa: self.isa,
        };
        Phases::each_row(phases.team, count, |token| {
            // SAFETY: a phase of rows; nobody else has this one of any buffer.
            unsafe { inputs.join(token, plan.tokens[token]) };
        });
        phases.attention_of(0, &weights.layer, &self.joined);
        phases.feed_forward(&weights.layer);
        phases.distributions(&weights.norm, &weights.output);
    }

    /// The likeliest token of the target's after output `index` of the last pass.
    pub(crate) fn best(&self, index: usize) -> TokenId {
        self.weights.tokens[likeliest(self.logits(index))]
    }

    /// Over the head's own vocabulary.
    pub(crate) fn logits(&self, index: usize) -> &[f32] {
        // SAFETY: only `pass` writes, which needs the head for itself and returns after all
        // members have finished.
        let row = unsafe { self.space.logits.row(index) };
        &row[..self.weights.tokens.len()]
    }

    /// What the layer made of token `index` of the last plan, before the last norm.
    pub(crate) fn state(&self, index: usize) -> &[f32] {
        // SAFETY: as for `logits`.
        unsafe { self.space.residual.row(index) }
    }
}

/// What the layer's inputs are made of.
struct Inputs<'a> {
    weights: &'a HeadWeights,
    embeddings: &'a Matrix,
    space: &'a Workspace,
    joined: &'a Activations,
    isa: Isa,
}

impl Inputs<'_> {
    /// Makes the inputs of one position ready.
    ///
    /// # Safety
    ///
    /// Nobody else uses the position's rows meanwhile.
    unsafe fn join(&self, row: usize, token: TokenId) {
        let config = &self.weights.config;
        let hidden = config.hidden;
        let norm = |weight| Norm {
            weight,
            width: hidden,
            epsilon: config.norm_epsilon,
        };
        // SAFETY: four different buffers, of which the caller guarantees the row.
        let (normed, joined, embedded, state) = unsafe {
            (
                self.space.normed.values.row_mut(row),
                self.joined.values.row_mut(row),
                self.space.addition.row_mut(row),
                self.space.residual.row_mut(row),
            )
        };
        embedded.fill(0.0);
        self.embeddings.row(token as usize, embedded);
        let embedding_norm = norm(&self.weights.layer.attention_norm);
        self.isa.rms_norm(embedding_norm, embedded, normed);
        joined[..hidden].copy_from_slice(&normed[..hidden]);
        state[hidden.next_multiple_of(LANES)..].fill(0.0);
        self.isa
            .rms_norm(norm(&self.weights.hidden_norm), state, normed);
        joined[hidden..2 * hidden].copy_from_slice(&normed[..hidden]);
        if self.weights.norm_before_residual {
            state.copy_from_slice(normed);
        }
        // SAFETY: as above; `joined` is not used any more.
        unsafe { self.joined.seal(self.isa, row) };
    }
}
