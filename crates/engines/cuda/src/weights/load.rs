//! Weights from a model's files.
//!
//! A tensor is read as it is stored. What is BF16 or FP8 and stays so is copied; all else becomes
//! floats row by row and is rounded once. Threads read and convert parts of a large tensor; one after
//! the other they go to the device.

use std::ops::Range;
use std::thread;

use checkpoint::{CacheScales, Checkpoint, Format, TensorInfo};

use super::{Fused, Source, WeightsError};
use crate::numbers::{encode, fp8_scale};
use crate::ops::{Dtype, Ops, OpsError, Weight};

/// Numbers that a thread has at least: with fewer it is not worth its start.
const LEAST_PART: usize = 4 << 20;
/// More threads than this wait for the device.
const MOST_THREADS: usize = 16;

pub(super) struct Files<'a> {
    checkpoint: &'a Checkpoint,
    progress: &'a mut dyn FnMut(u64),
    /// One for each thread.
    parts: Vec<Part>,
}

/// Rows of a tensor.
#[derive(Debug, Default)]
struct Part {
    /// As they are in the file, and as they will be.
    stored: Vec<u8>,
    converted: Vec<u8>,
    /// What each row was divided by, with FP8.
    scales: Vec<f32>,
}

/// A tensor to be converted.
#[derive(Clone, Copy)]
struct Tensor<'a> {
    checkpoint: &'a Checkpoint,
    name: &'a str,
    info: &'a TensorInfo,
    row_scales: Option<&'a [f32]>,
    dtype: Dtype,
}

impl<'a> Files<'a> {
    pub(super) fn new(checkpoint: &'a Checkpoint, progress: &'a mut dyn FnMut(u64)) -> Self {
        let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
        Self {
            checkpoint,
            progress,
            parts: (0..threads.min(MOST_THREADS))
                .map(|_| Part::default())
                .collect(),
        }
    }

    /// Writes a tensor's numbers as `dtype` to a buffer from `at` on, and says where they end; what each
    /// row was divided by goes to `scales`.
    fn put<O: Ops>(
        &mut self,
        ops: &mut O,
        (name, dtype): (&str, Dtype),
        (to, mut at): (&O::Buffer, usize),
        scales: &mut Vec<f32>,
    ) -> Result<usize, WeightsError> {
        let info = self.checkpoint.info(name)?;
        let row_scales = self.checkpoint.row_scales(name)?;
        let tensor = Tensor {
            checkpoint: self.checkpoint,
            name,
            info,
            row_scales: row_scales.as_deref(),
            dtype,
        };
        let threads = info.rows * info.columns / LEAST_PART;
        let threads = threads.clamp(1, self.parts.len()).min(info.rows);
        let parts = &mut self.parts[..threads];
        thread::scope(|scope| {
            let running: Vec<_> = (0..threads)
                .map(|part| info.rows * part / threads..info.rows * (part + 1) / threads)
                .zip(parts)
                .map(|(rows, part)| scope.spawn(move || part.convert(tensor, rows).map(|()| part)))
                .collect();
            for thread in running {
                let part = thread.join().map_err(|_| OpsError::Call {
                    call: "reading weights",
                    detail: "a thread has panicked".to_owned(),
                })??;
                (self.progress)(part.stored.len() as u64);
                let bytes = part.bytes();
                ops.write(to, at, bytes)?;
                at += bytes.len();
                scales.append(&mut part.scales);
            }
            Ok(at)
        })
    }
}

impl Part {
    /// The numbers, as they go to the device.
    fn bytes(&self) -> &[u8] {
        match self.converted.is_empty() {
            true => &self.stored,
            false => &self.converted,
        }
    }

    /// Reads rows of a tensor, and rounds them if they are stored otherwise.
    fn convert(&mut self, tensor: Tensor<'_>, rows: Range<usize>) -> Result<(), WeightsError> {
        let Tensor { name, info, .. } = tensor;
        self.converted.clear();
        self.scales.clear();
        let first = rows.start;
        let not_finite = |row| WeightsError::NotFinite {
            tensor: name.to_owned(),
            row: first + row,
        };
        let count = rows.len();
        let row_scales = tensor.row_scales.map(|scales| &scales[rows.clone()]);
        tensor.checkpoint.read_rows(name, rows, &mut self.stored)?;
        let as_it_is = match (info.format, tensor.dtype) {
            (Format::Bf16, Dtype::Bf16) => Some(bf16_not_finite(&self.stored)),
            (Format::E4m3, Dtype::Fp8) if row_scales.is_some() => {
                self.scales.extend(row_scales.unwrap_or_default());
                Some(fp8_not_finite(&self.stored))
            }
            _ => None,
        };
        match as_it_is {
            Some(None) => return Ok(()),
            Some(Some(place)) => return Err(not_finite(place / info.columns)),
            None => {}
        }
        let mut numbers = vec![0.0; info.columns];
        let bytes = self.stored.chunks_exact(self.stored.len() / count.max(1));
        for (row, bytes) in bytes.enumerate() {
            info.format.dequantise(bytes, &mut numbers);
            if let Some(scales) = row_scales {
                let scale = scales[row];
                numbers.iter_mut().for_each(|number| *number *= scale);
            }
            if numbers.iter().any(|number| !number.is_finite()) {
                return Err(not_finite(row));
            }
            if tensor.dtype == Dtype::Fp8 {
                let scale = fp8_scale(&numbers);
                numbers.iter_mut().for_each(|number| *number /= scale);
                self.scales.push(scale);
            }
            encode(tensor.dtype, &numbers, &mut self.converted);
        }
        Ok(())
    }
}

/// Numbers that are looked at together: a search of each by itself would take longer than reading.
const AT_ONCE: usize = 4096;

/// Where the first number is that is none, or infinite: all bits of its exponent say so.
fn bf16_not_finite(bytes: &[u8]) -> Option<usize> {
    const EXPONENT: u16 = 0x7f80;
    let is_none = |half: [u8; 2]| u16::from_le_bytes(half) & EXPONENT == EXPONENT;
    first_of(bytes.as_chunks::<2>().0, |half| is_none(*half))
}

/// Where the first code of E4M3 is that is no number: there are two.
fn fp8_not_finite(bytes: &[u8]) -> Option<usize> {
    first_of(bytes, |code| code & 0x7f == 0x7f)
}

fn first_of<T>(numbers: &[T], is_none: impl Fn(&T) -> bool) -> Option<usize> {
    let has_one = |part: &[T]| {
        part.iter()
            .fold(false, |found, number| found | is_none(number))
    };
    let part = numbers.chunks(AT_ONCE).position(has_one)?;
    let first = part * AT_ONCE;
    numbers[first..]
        .iter()
        .position(is_none)
        .map(|place| first + place)
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
            at = self.put(ops, (name, dtype), (&values, at), &mut factors)?;
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
            at = self.put(ops, (name, Dtype::F32), (&vector, at), &mut Vec::new())?;
        }
        Ok(vector)
    }

    fn cache_scales(&self, layer: usize) -> Result<CacheScales, WeightsError> {
        Ok(self.checkpoint.cache_scales(layer)?)
    }
}
