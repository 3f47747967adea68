//! A step as a sequence of operations.
//!
//! Of a step with parts of prompts, few rows lead to distributions. The last layer is computed for those
//! alone, once all rows have stored their keys and values.

use checkpoint::ModelConfig;
use checkpoint::config::RopePairs;

use super::workspace::{Stored, Workspace};
use crate::cache::KvPool;
use crate::ops::{
    Attend, Dtype, Embed, Gate, Gemm, Norm, Ops, OpsError, Pairs, Product, RotateStore, Rows, Span,
    Weight,
};
use crate::staging::{Inputs, StepShape, Wanted};
use crate::weights::{Layer, Weights};

/// A step and all that it works with.
pub(super) struct Step<'a, B> {
    pub(super) config: &'a ModelConfig,
    pub(super) weights: &'a Weights<B>,
    pub(super) angles: &'a B,
    pub(super) cache: &'a KvPool<B>,
    pub(super) space: &'a Workspace<B>,
    pub(super) inputs: &'a Inputs<B>,
    pub(super) shape: &'a StepShape,
    pub(super) spans: &'a [Span],
}

/// Rows that go through a layer together, and their residual stream.
struct Lot<'a, B> {
    rows: Rows<'a, B>,
    residual: &'a B,
    /// As [`Attend`] has them.
    decodes: usize,
    spans: &'a [Span],
}

impl<B> Clone for Lot<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Lot<'_, B> {}

impl<B> Step<'_, B> {
    pub(super) fn run<O: Ops<Buffer = B>>(&self, ops: &mut O) -> Result<(), OpsError> {
        ops.embed(Embed {
            tokens: &self.inputs.tokens,
            rows: self.shape.rows,
            table: &self.weights.embeddings,
            residual: &self.space.residual,
        })?;
        let mut lot = Lot {
            rows: self.inputs.rows(self.shape),
            residual: &self.space.residual,
            decodes: self.shape.decodes,
            spans: self.spans,
        };
        // Each part of a layer is added to the residual stream by the norm after it.
        let mut addition = None;
        for (index, layer) in self.weights.layers.iter().enumerate() {
            self.norm(ops, lot, &layer.attention_norm, addition)?;
            self.queries(ops, lot, (index, layer))?;
            if index + 1 == self.weights.layers.len()
                && let Some(wanted) = &self.inputs.wanted
            {
                if self.shape.outputs == 0 {
                    return Ok(());
                }
                lot = self.wanted(ops, wanted)?;
                self.norm(ops, lot, &layer.attention_norm, None)?;
                self.queries(ops, lot, (index, layer))?;
            }
            self.attention(ops, lot, (index, layer))?;
            let output = &layer.attention_output;
            let found = self.addition(&self.space.attended, output);
            self.norm(ops, lot, &layer.feed_forward_norm, Some(found))?;
            self.feed_forward(ops, lot, layer)?;
            addition = Some(self.addition(&self.space.gated, &layer.down));
        }
        self.distributions(ops, lot, addition)
    }

    /// The rows that distributions are wanted of, by themselves. All have left their keys and values in
    /// the last layer; what else it computes, nobody needs of the others. Each finds its context in the
    /// pages, as a row that decodes does.
    fn wanted<'w, O: Ops<Buffer = B>>(
        &'w self,
        ops: &mut O,
        wanted: &'w Wanted<B>,
    ) -> Result<Lot<'w, B>, OpsError> {
        let (rows, width) = (self.shape.rows, self.config.hidden);
        let stream = Weight {
            values: ops.part(&self.space.residual, 0, rows * width * 4),
            dtype: Dtype::F32,
            outputs: rows,
            inputs: width,
            scales: None,
        };
        ops.embed(Embed {
            tokens: &wanted.rows,
            rows: self.shape.outputs,
            table: &stream,
            residual: &self.space.wanted,
        })?;
        Ok(Lot {
            rows: self.inputs.wanted_rows(wanted, self.shape),
            residual: &self.space.wanted,
            decodes: self.shape.outputs,
            spans: &[],
        })
    }

    /// Norms all rows, for a product of this layer.
    fn norm<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        lot: Lot<'_, B>,
        weight: &B,
        addition: Option<Product<'_, B>>,
    ) -> Result<(), OpsError> {
        self.norm_to(ops, lot, (weight, &self.space.normed), addition)
    }

    fn norm_to<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        lot: Lot<'_, B>,
        (weight, out): (&B, &Stored<B>),
        addition: Option<Product<'_, B>>,
    ) -> Result<(), OpsError> {
        ops.norm(Norm {
            rows: lot.rows.count,
            width: self.config.hidden,
            residual: lot.residual,
            addition,
            weight,
            epsilon: self.config.norm_epsilon,
            out: out.activations(),
        })
    }

    fn addition<'p>(&'p self, input: &'p Stored<B>, weight: &'p Weight<B>) -> Product<'p, B> {
        self.space.addition.product(input, weight.scales.as_ref())
    }

    fn gemm<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        rows: usize,
        (input, weight): (&Stored<B>, &Weight<B>),
        out: &Stored<B>,
    ) -> Result<(), OpsError> {
        let out = out.activations();
        ops.gemm(Gemm {
            rows,
            input: input.activations(),
            weight,
            out: out.values,
            out_dtype: out.dtype,
        })
    }

    /// Queries; and keys and values, which go to their pages.
    fn queries<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        lot: Lot<'_, B>,
        (index, layer): (usize, &Layer<B>),
    ) -> Result<(), OpsError> {
        let (config, space) = (self.config, self.space);
        let product = (&space.normed, &layer.qkv);
        self.gemm(ops, lot.rows.count, product, &space.qkv)?;
        ops.rotate_store(RotateStore {
            rows: lot.rows,
            qkv: space.qkv.product(&space.normed, layer.qkv.scales.as_ref()),
            bias: layer.qkv_bias.as_ref(),
            heads: config.heads,
            angles: self.angles,
            pairs: match config.rope_pairs {
                RopePairs::Halves => Pairs::Halves,
                RopePairs::Neighbours => Pairs::Neighbours,
            },
            pages: self.cache.layer(index, layer.cache_scales),
            queries: &space.queries,
        })
    }

    fn attention<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        lot: Lot<'_, B>,
        (index, layer): (usize, &Layer<B>),
    ) -> Result<(), OpsError> {
        let (config, space) = (self.config, self.space);
        ops.attend(Attend {
            rows: lot.rows,
            decodes: lot.decodes,
            prefills: lot.spans,
            longest: self.shape.longest,
            heads: config.heads,
            pages: self.cache.layer(index, layer.cache_scales),
            queries: &space.queries,
            scale: 1.0 / (config.head_size as f32).sqrt(),
            out: space.attended.activations(),
        })?;
        let product = (&space.attended, &layer.attention_output);
        self.gemm(ops, lot.rows.count, product, &space.addition)
    }

    fn feed_forward<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        lot: Lot<'_, B>,
        layer: &Layer<B>,
    ) -> Result<(), OpsError> {
        let (rows, space) = (lot.rows.count, self.space);
        self.gemm(ops, rows, (&space.normed, &layer.gate_up), &space.gate_up)?;
        let scales = layer.gate_up.scales.as_ref();
        ops.gate(Gate {
            rows,
            width: self.config.feed_forward,
            gate_up: space.gate_up.product(&space.normed, scales),
            out: space.gated.activations(),
        })?;
        self.gemm(ops, rows, (&space.gated, &layer.down), &space.addition)
    }

    fn distributions<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        lot: Lot<'_, B>,
        addition: Option<Product<'_, B>>,
    ) -> Result<(), OpsError> {
        let space = self.space;
        self.norm_to(ops, lot, (&self.weights.norm, &space.last), addition)?;
        ops.gemm(Gemm {
            rows: lot.rows.count,
            input: space.last.activations(),
            weight: self.weights.head(),
            out: &space.logits,
            out_dtype: Dtype::F32,
        })
    }
}
