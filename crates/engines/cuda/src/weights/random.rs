//! Weights of a shape alone.
//!
//! Numbers are normal with a deviation of one over the square root of their row's length, so that
//! what flows through the layers stays as large as it is. In FP8 they have a deviation of 1 and the
//! rest is their scale, as in a model that was quantised. Norms are 1, biases 0.

use checkpoint::CacheScales;

use super::{Fused, Source, WeightsError};
use crate::numbers::encode;
use crate::ops::{Dtype, FillRandom, Ops, Weight};

/// Each matrix has a seed of its own.
#[derive(Debug, Default)]
pub(super) struct Random {
    matrices: u64,
}

/// The same number many times, as F32.
fn filled<O: Ops>(ops: &mut O, number: f32, count: usize) -> Result<O::Buffer, WeightsError> {
    let mut bytes = Vec::new();
    encode(Dtype::F32, &vec![number; count], &mut bytes);
    let buffer = ops.allocate(bytes.len())?;
    ops.write(&buffer, 0, &bytes)?;
    Ok(buffer)
}

impl<O: Ops> Source<O> for Random {
    fn matrix(
        &mut self,
        ops: &mut O,
        matrix: Fused<'_>,
    ) -> Result<Weight<O::Buffer>, WeightsError> {
        let (outputs, inputs, dtype) = (matrix.outputs(), matrix.inputs, matrix.dtype);
        let deviation = 1.0 / (inputs as f32).sqrt();
        let (deviation, scales) = match dtype {
            Dtype::F32 | Dtype::Bf16 => (deviation, None),
            Dtype::Fp8 => (1.0, Some(filled(ops, deviation, outputs)?)),
        };
        let values = ops.allocate(outputs * inputs * dtype.bytes())?;
        self.matrices += 1;
        ops.fill_random(FillRandom {
            to: &values,
            dtype,
            count: outputs * inputs,
            seed: self.matrices,
            deviation,
        })?;
        Ok(Weight {
            values,
            dtype,
            outputs,
            inputs,
            scales,
        })
    }

    fn vector(
        &mut self,
        ops: &mut O,
        names: &[String],
        width: usize,
    ) -> Result<O::Buffer, WeightsError> {
        let is_bias = names.iter().any(|name| name.ends_with(".bias"));
        filled(ops, if is_bias { 0.0 } else { 1.0 }, width)
    }

    fn cache_scales(&self, _: usize) -> Result<CacheScales, WeightsError> {
        Ok(CacheScales::NONE)
    }
}
