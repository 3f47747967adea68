//! What a step works with between its operations.

use checkpoint::ModelConfig;

use crate::model::ModelOptions;
use crate::ops::{Activations, Dtype, Ops, OpsError, Product};
use crate::staging::{padded, upload_bytes};
use crate::weights::Storage;

/// Rows of one width.
#[derive(Debug)]
pub(super) struct Stored<B> {
    values: B,
    dtype: Dtype,
    /// With FP8.
    scales: Option<B>,
}

impl<B> Stored<B> {
    fn new<O: Ops<Buffer = B>>(
        ops: &mut O,
        dtype: Dtype,
        (rows, width): (usize, usize),
    ) -> Result<Self, OpsError> {
        Ok(Self {
            values: ops.allocate(rows * width * dtype.bytes())?,
            dtype,
            scales: match dtype {
                Dtype::Fp8 => Some(ops.allocate(rows * 4)?),
                Dtype::F32 | Dtype::Bf16 => None,
            },
        })
    }

    pub(super) fn activations(&self) -> Activations<'_, B> {
        Activations {
            values: &self.values,
            dtype: self.dtype,
            scales: self.scales.as_ref(),
        }
    }

    /// What came out of a product, with the scales of what went into it.
    pub(super) fn product<'a>(
        &'a self,
        input: &'a Self,
        column_scales: Option<&'a B>,
    ) -> Product<'a, B> {
        Product {
            values: &self.values,
            dtype: self.dtype,
            row_scales: input.scales.as_ref(),
            column_scales,
        }
    }
}

/// Memory of a workspace.
pub(super) fn bytes(config: &ModelConfig, storage: Storage, options: &ModelOptions) -> usize {
    let (rows, outputs) = rows_and_outputs(options);
    let queries = config.heads * config.head_size;
    let qkv = queries + 2 * config.kv_heads * config.head_size;
    let (activations, products) = (storage.weights(), storage.products());
    let normed = [config.hidden, queries, config.feed_forward];
    let normed = normed.map(|width| width * activations.bytes() + scale_bytes(activations));
    let found = [qkv, config.hidden, 2 * config.feed_forward, queries];
    let found = found.map(|width| width * products.bytes());
    let row = normed.iter().chain(&found).sum::<usize>() + config.hidden * 4;
    let output = config.hidden * (4 + products.bytes()) + config.vocabulary * 4 + 4;
    rows * row + outputs * output + upload_bytes(rows, outputs, options.slots, options.context)
}

/// Rows of a step, and distributions, at most.
pub(super) fn rows_and_outputs(options: &ModelOptions) -> (usize, usize) {
    let recorded = padded(options.slots);
    (
        options.step_tokens.max(recorded),
        options.outputs.max(recorded),
    )
}

/// Memory of a row's own scale.
fn scale_bytes(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Fp8 => 4,
        Dtype::F32 | Dtype::Bf16 => 0,
    }
}

#[derive(Debug)]
pub(super) struct Workspace<B> {
    pub(super) upload: B,
    /// The residual stream (F32).
    pub(super) residual: B,
    pub(super) normed: Stored<B>,
    pub(super) qkv: Stored<B>,
    pub(super) queries: B,
    pub(super) attended: Stored<B>,
    /// What a part of a layer found, on its way to the residual stream.
    pub(super) addition: Stored<B>,
    pub(super) gate_up: Stored<B>,
    pub(super) gated: Stored<B>,
    /// The residual stream of rows that distributions are wanted of (F32), where those are not all.
    pub(super) wanted: B,
    /// Those rows, normed.
    pub(super) last: Stored<B>,
    /// F32.
    pub(super) logits: B,
    /// The tokens that are drawn of them (u32).
    pub(super) drawn: B,
}

impl<B> Workspace<B> {
    pub(super) fn new<O: Ops<Buffer = B>>(
        ops: &mut O,
        (config, storage): (&ModelConfig, Storage),
        options: &ModelOptions,
    ) -> Result<Self, OpsError> {
        let (rows, outputs) = rows_and_outputs(options);
        let (queries, keys) = (
            config.heads * config.head_size,
            config.kv_heads * config.head_size,
        );
        let (activations, products) = (storage.weights(), storage.products());
        let upload = upload_bytes(rows, outputs, options.slots, options.context);
        let mut stored = |dtype, width| Stored::new(ops, dtype, (rows, width));
        Ok(Self {
            normed: stored(activations, config.hidden)?,
            qkv: stored(products, queries + 2 * keys)?,
            attended: stored(activations, queries)?,
            addition: stored(products, config.hidden)?,
            gate_up: stored(products, 2 * config.feed_forward)?,
            gated: stored(activations, config.feed_forward)?,
            last: Stored::new(ops, products, (outputs, config.hidden))?,
            upload: ops.allocate(upload)?,
            residual: ops.allocate(rows * config.hidden * 4)?,
            wanted: ops.allocate(outputs * config.hidden * 4)?,
            queries: ops.allocate(rows * queries * products.bytes())?,
            logits: ops.allocate(outputs * config.vocabulary * 4)?,
            drawn: ops.allocate(outputs * 4)?,
        })
    }
}
