//! What a worker does before its first step.

use cuda::ops::{Dtype, Gemm, Ops, OpsError};

use super::Model;

impl<O: Ops> Model<O> {
    /// Finds the fastest products of up to so many rows.
    pub(crate) fn prepare(&self, ops: &mut O, rows: usize, outputs: usize) -> Result<(), OpsError> {
        let layer = &self.layers[0];
        for (input, weight, out) in [
            (&self.normed, &layer.qkv, &self.wide),
            (&self.attended, &layer.out, &self.narrow),
            (&self.normed, &layer.gate_up, &self.wide),
            (&self.gated, &layer.down, &self.narrow),
        ] {
            ops.prepare(Gemm {
                rows,
                input: input.activations(),
                weight,
                out,
                out_dtype: Dtype::Bf16,
            })?;
        }
        ops.prepare(Gemm {
            rows: outputs,
            input: self.last(),
            weight: &self.head,
            out: &self.logits,
            out_dtype: Dtype::F32,
        })
    }
}
