//! A step as a sequence of operations.

use checkpoint::ModelConfig;
use checkpoint::config::RopePairs;

use super::workspace::{Stored, Workspace};
use crate::cache::KvPool;
use crate::ops::{
    Attend, Dtype, Embed, Gate, Gemm, Norm, Ops, OpsError, Pairs, Product, RotateStore, Span,
    Weight,
};
use crate::staging::{Inputs, StepShape};
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

impl<B> Step<'_, B> {
    pub(super) fn run<O: Ops<Buffer = B>>(&self, ops: &mut O) -> Result<(), OpsError> {
        ops.embed(Embed {
            tokens: &self.inputs.tokens,
            rows: self.shape.rows,
            table: &self.weights.embeddings,
            residual: &self.space.residual,
        })?;
        // Each part of a layer is added to the residual stream by the norm after it.
        let mut addition = None;
        for (index, layer) in self.weights.layers.iter().enumerate() {
            self.norm(ops, &layer.attention_norm, addition)?;
            self.attention(ops, index, layer)?;
            let output = &layer.attention_output;
            let found = self.addition(&self.space.attended, output);
            self.norm(ops, &layer.feed_forward_norm, Some(found))?;
            self.feed_forward(ops, layer)?;
            addition = Some(self.addition(&self.space.gated, &layer.down));
        }
        self.distributions(ops, addition)
    }

    /// Norms all rows, for a product of this layer.
    fn norm<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        weight: &B,
        addition: Option<Product<'_, B>>,
    ) -> Result<(), OpsError> {
        ops.norm(Norm {
            addition,
            ..self.norm_of(weight, self.shape.rows, &self.space.normed)
        })
    }

    fn norm_of<'n>(&'n self, weight: &'n B, rows: usize, out: &'n Stored<B>) -> Norm<'n, B> {
        Norm {
            rows,
            width: self.config.hidden,
            residual: &self.space.residual,
            addition: None,
            gather: None,
            weight,
            epsilon: self.config.norm_epsilon,
            out: out.activations(),
        }
    }

    fn addition<'p>(&'p self, input: &'p Stored<B>, weight: &'p Weight<B>) -> Product<'p, B> {
        self.space.addition.product(input, weight.scales.as_ref())
    }

    fn gemm<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        (input, weight): (&Stored<B>, &Weight<B>),
        out: &Stored<B>,
    ) -> Result<(), OpsError> {
        let out = out.activations();
        ops.gemm(Gemm {
            rows: self.shape.rows,
            input: input.activations(),
            weight,
            out: out.values,
            out_dtype: out.dtype,
        })
    }

    fn attention<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        index: usize,
        layer: &Layer<B>,
    ) -> Result<(), OpsError> {
        let (config, space) = (self.config, self.space);
        let rows = self.inputs.rows(self.shape);
        let pages = self.cache.layer(index, layer.cache_scales);
        self.gemm(ops, (&space.normed, &layer.qkv), &space.qkv)?;
        ops.rotate_store(RotateStore {
            rows,
            qkv: space.qkv.product(&space.normed, layer.qkv.scales.as_ref()),
            bias: layer.qkv_bias.as_ref(),
            heads: config.heads,
            angles: self.angles,
            pairs: match config.rope_pairs {
                RopePairs::Halves => Pairs::Halves,
                RopePairs::Neighbours => Pairs::Neighbours,
            },
            pages,
            queries: &space.queries,
        })?;
        ops.attend(Attend {
            rows,
            decodes: self.shape.decodes,
            prefills: self.spans,
            longest: self.shape.longest,
            heads: config.heads,
            pages,
            queries: &space.queries,
            scale: 1.0 / (config.head_size as f32).sqrt(),
            out: space.attended.activations(),
        })?;
        let output = &layer.attention_output;
        self.gemm(ops, (&space.attended, output), &space.addition)
    }

    fn feed_forward<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        layer: &Layer<B>,
    ) -> Result<(), OpsError> {
        let space = self.space;
        self.gemm(ops, (&space.normed, &layer.gate_up), &space.gate_up)?;
        let scales = layer.gate_up.scales.as_ref();
        ops.gate(Gate {
            rows: self.shape.rows,
            width: self.config.feed_forward,
            gate_up: space.gate_up.product(&space.normed, scales),
            out: space.gated.activations(),
        })?;
        self.gemm(ops, (&space.gated, &layer.down), &space.addition)
    }

    fn distributions<O: Ops<Buffer = B>>(
        &self,
        ops: &mut O,
        addition: Option<Product<'_, B>>,
    ) -> Result<(), OpsError> {
        let (space, weight) = (self.space, &self.weights.norm);
        let outputs = self.shape.outputs;
        let last = self.norm_of(weight, outputs, &space.last);
        match &self.inputs.gather {
            None => ops.norm(Norm { addition, ..last })?,
            Some(_) if outputs == 0 => return Ok(()),
            Some(gather) => {
                // The last addition first, which is of all rows.
                self.norm(ops, weight, addition)?;
                let gather = Some(gather);
                ops.norm(Norm { gather, ..last })?;
            }
        }
        ops.gemm(Gemm {
            rows: outputs,
            input: space.last.activations(),
            weight: self.weights.head(),
            out: &space.logits,
            out_dtype: Dtype::F32,
        })
    }
}
