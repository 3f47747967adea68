//! Weights from a model's files.
//!
//! A tensor is read as it is stored. What is BF16 or FP8 and stays so is copied; all else becomes
//! floats row by row and is rounded once.

use checkpoint::{CacheScales, Checkpoint, Format, TensorInfo};

use super::{Fused, Source, WeightsError};
use crate::numbers::{encode, fp8_scale};
use crate::ops::{Dtype, Ops, Weight};

pub(super) struct Files<'a> {
    checkpoint: &'a Checkpoint,
    progress: &'a mut dyn FnMut(u64),
    /// A tensor as it is stored, and as it will be.
    stored: Vec<u8>,
    converted: Vec<u8>,
}

impl<'a> Files<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, progress: &'a mut dyn FnMut(u64)) -> Self {
        Self {
            checkpoint,
            progress,
            stored: Vec::new(),
            converted: Vec::new(),
        }
    }

    /// Reads a tensor and rounds it to `dtype`; what each row was divided by goes to `scales`.
    fn convert(
        &mut self,
        name: &str,
        dtype: Dtype,
        scales: &mut Vec<f32>,
    ) -> Result<&[u8], WeightsError> {
        let info = self.checkpoint.read(name, &mut self.stored)?;
        (self.progress)(self.stored.len() as u64);
        if info.format == Format::Bf16 && dtype == Dtype::Bf16 {
            check_bf16(name, &info, &self.stored)?;
            return Ok(&self.stored);
        }
        let row_scales = self.checkpoint.row_scales(name)?;
        if let Some(row_scales) = &row_scales
            && dtype == Dtype::Fp8
        {
            check_fp8(name, &info, &self.stored)?;
            scales.extend(row_scales);
            return Ok(&self.stored);
        }
        self.converted.clear();
        let mut numbers = vec![0.0; info.columns];
        let rows = self.stored.chunks_exact(self.stored.len() / info.rows);
        for (row, bytes) in rows.enumerate() {
            info.format.dequantise(bytes, &mut numbers);
            if let Some(row_scales) = &row_scales {
                let scale = row_scales[row];
                numbers.iter_mut().for_each(|number| *number *= scale);
            }
            if numbers.iter().any(|number| !number.is_finite()) {
                let tensor = name.to_owned();
                return Err(WeightsError::NotFinite { tensor, row });
            }
            if dtype == Dtype::Fp8 {
                let scale = fp8_scale(&numbers);
                numbers.iter_mut().for_each(|number| *number /= scale);
                scales.push(scale);
            }
            encode(dtype, &numbers, &mut self.converted);
        }
        Ok(&self.converted)
    }
}

/// All bits of the exponent say that a number is none, or infinite.
fn check_bf16(name: &str, info: &TensorInfo, bytes: &[u8]) -> Result<(), WeightsError> {
    const EXPONENT: u16 = 0x7f80;
    let halves = bytes.as_chunks().0.iter().copied().map(u16::from_le_bytes);
    let mut places = halves.enumerate();
    match places.find(|(_, half)| half & EXPONENT == EXPONENT) {
        None => Ok(()),
        Some((place, _)) => Err(WeightsError::NotFinite {
            tensor: name.to_owned(),
            row: place / info.columns,
        }),
    }
}

/// Two codes of E4M3 are no number.
fn check_fp8(name: &str, info: &TensorInfo, bytes: &[u8]) -> Result<(), WeightsError> {
    match bytes.iter().position(|code| code & 0x7f == 0x7f) {
        None => Ok(()),
        Some(place) => Err(WeightsError::NotFinite {
            tensor: name.to_owned(),
            row: place / info.columns,
        }),
    }
}

impl<O: Ops> Source<O> for Files<'_> {
    fn matrix(
        &mut self,
        ops: &mut O,
        matrix: Fused<'_>,
    ) -> Result<Weight<O::Buffer>, WeightsError> {
        let Fused {
            tensors,
            inputs,
            dtype,
        } = matrix;
        let outputs = matrix.outputs();
        let values = ops.allocate(outputs * inputs * dtype.bytes())?;
        let (mut at, mut factors) = (0, Vec::new());
        for (name, _) in tensors {
            let bytes = self.convert(name, dtype, &mut factors)?;
            ops.write(&values, at, bytes)?;
            at += bytes.len();
        }
        let scales = match dtype {
            Dtype::F32 | Dtype::Bf16 => None,
            Dtype::Fp8 => {
                let mut bytes = Vec::new();
                encode(Dtype::F32, &factors, &mut bytes);
                let scales = ops.allocate(bytes.len())?;
                ops.write(&scales, 0, &bytes)?;
                Some(scales)
            }
        };
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
        let vector = ops.allocate(width * Dtype::F32.bytes())?;
        let mut at = 0;
        for name in names {
            let bytes = self.convert(name, Dtype::F32, &mut Vec::new())?;
            ops.write(&vector, at, bytes)?;
            at += bytes.len();
        }
        Ok(vector)
    }

    fn cache_scales(&self, layer: usize) -> Result<CacheScales, WeightsError> {
        Ok(self.checkpoint.cache_scales(layer)?)
    }
}
