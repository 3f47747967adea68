//! The twin: all operations on the host, in plain arithmetic.
//!
//! It stores numbers as it is asked to, and rounds nowhere else: with F32 it is exact, with what a
//! device stores it is what a device is compared with. Sums are of F64, and each row is computed on
//! its own, so what a row gets does not depend on the others.
//!
//! Memory nobody wrote is full of numbers that are none, and of indices that lead nowhere. What lies
//! outside of a buffer panics. A recorded step panics where a device would replay another one than it
//! was asked for.

mod attention;
mod memory;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::f64::consts::PI;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use self::memory::HostBuffer;
use self::memory::Memory;
use sampling::{Sampler, forbid};

use super::{
    ALIGNMENT, Activations, Attend, Draw, DrawRow, Dtype, Embed, FillRandom, Gate, Gemm, Norm, Ops,
    OpsError, PADDING, Pairs, Product, RecordKey, RotateStore, Weight,
};
use crate::numbers::{decode, fp8_scale};

/// A device of memory and arithmetic alone.
#[derive(Debug)]
pub struct HostOps {
    total: usize,
    used: Arc<AtomicUsize>,
    read: Arc<AtomicUsize>,
    sampler: Sampler,
    /// What each recorded step did.
    recordings: HashMap<RecordKey, Vec<String>>,
    /// The operations of the step that is being recorded.
    recording: Option<Vec<String>>,
}

impl HostOps {
    /// A device with so much memory.
    pub fn new(bytes: usize) -> Self {
        Self {
            total: bytes,
            used: Arc::default(),
            read: Arc::default(),
            sampler: Sampler::default(),
            recordings: HashMap::new(),
            recording: None,
        }
    }

    /// Counts the bytes that were read, also once the device belongs to a model.
    pub fn bytes_read(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.read)
    }

    fn note(&mut self, operation: &dyn std::fmt::Debug) {
        if let Some(recording) = &mut self.recording {
            recording.push(format!("{operation:?}"));
        }
    }

    fn not_recording(&self, what: &str) {
        assert!(self.recording.is_none(), "a recorded step does not {what}");
    }
}

/// The sum of products.
fn dot(one: &[f32], other: &[f32]) -> f64 {
    assert_eq!(one.len(), other.len(), "as long as each other");
    let mut sums = [0f64; 8];
    let (chunks, rest) = one.as_chunks::<8>();
    let (others, other_rest) = other.as_chunks::<8>();
    for (one, other) in chunks.iter().zip(others) {
        for lane in 0..8 {
            sums[lane] += f64::from(one[lane]) * f64::from(other[lane]);
        }
    }
    let rest = rest.iter().zip(other_rest);
    let rest: f64 = rest
        .map(|(one, other)| f64::from(*one) * f64::from(*other))
        .sum();
    sums.iter().sum::<f64>() + rest
}

/// A number of F32 from a buffer, or 1 without one.
fn scale_at(scales: Option<&HostBuffer>, index: usize) -> f32 {
    scales.map_or(1.0, |scales| scales.numbers(Dtype::F32, index, 1)[0])
}

/// A row of a product with its scales.
fn product_row(product: &Product<'_, HostBuffer>, row: usize, width: usize) -> Vec<f32> {
    let mut numbers = product.values.numbers(product.dtype, row * width, width);
    let scale = scale_at(product.row_scales, row);
    match product.column_scales {
        Some(columns) => {
            let columns = columns.numbers(Dtype::F32, 0, width);
            for (number, column) in numbers.iter_mut().zip(columns) {
                *number *= scale * column;
            }
        }
        None => numbers.iter_mut().for_each(|number| *number *= scale),
    }
    numbers
}

/// A row of activations with its scale.
fn activation_row(rows: &Activations<'_, HostBuffer>, row: usize, width: usize) -> Vec<f32> {
    rows.values.numbers(rows.dtype, row * width, width)
}

/// Stores a row, with FP8 by its own scale.
fn store_row(to: &Activations<'_, HostBuffer>, row: usize, mut numbers: Vec<f32>) {
    if to.dtype == Dtype::Fp8 {
        let scale = fp8_scale(&numbers);
        numbers.iter_mut().for_each(|number| *number /= scale);
        let scales = to.scales.expect("rows of FP8 have scales");
        scales.store(Dtype::F32, row, &[scale]);
    }
    to.values.store(to.dtype, row * numbers.len(), &numbers);
}

/// Splitmix64: a hash whose every bit depends on every bit of the number.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// What [`FillRandom`] says of one place.
fn random_normal(seed: u64, place: u64) -> f32 {
    let bits = mixed(seed.wrapping_add((place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let share = |bits: u32| f64::from(bits) / 4_294_967_296.0;
    let (high, low) = ((bits >> 32) as u32, bits as u32);
    let length = (-2.0 * (share(high) + share(1)).ln()).sqrt();
    (length * (2.0 * PI * share(low)).cos()) as f32
}

/// `part` of a row of `qkv`: a head turned to its position.
fn turn(head: &mut [f32], angles: &[f32], pairs: Pairs) {
    let half = head.len() / 2;
    let (cosines, sines) = angles.split_at(half);
    for pair in 0..half {
        let (one, other) = match pairs {
            Pairs::Halves => (pair, pair + half),
            Pairs::Neighbours => (2 * pair, 2 * pair + 1),
        };
        let (x, y) = (head[one], head[other]);
        head[one] = x * cosines[pair] - y * sines[pair];
        head[other] = y * cosines[pair] + x * sines[pair];
    }
}

/// Checks that a product is of two matrices that the device can multiply.
fn check_product(gemm: &Gemm<'_, HostBuffer>) {
    let Weight { dtype, scales, .. } = gemm.weight;
    assert_eq!(*dtype, gemm.input.dtype, "weights and rows are alike");
    let is_fp8 = *dtype == Dtype::Fp8;
    assert_eq!(is_fp8, scales.is_some(), "scales are FP8's");
    assert_eq!(is_fp8, gemm.input.scales.is_some(), "scales are FP8's");
}

impl Ops for HostOps {
    type Buffer = HostBuffer;

    fn allocate(&mut self, bytes: usize) -> Result<HostBuffer, OpsError> {
        self.not_recording("allocate");
        let memory = Memory::new(bytes, self.total, &self.used);
        let memory = memory.ok_or(OpsError::OutOfMemory { bytes })?;
        Ok(HostBuffer::whole(memory))
    }

    fn part(&self, of: &HostBuffer, at: usize, bytes: usize) -> HostBuffer {
        assert!(at.is_multiple_of(ALIGNMENT), "{at} is not aligned");
        of.part(at, bytes)
    }

    fn write(&mut self, to: &HostBuffer, at: usize, bytes: &[u8]) -> Result<(), OpsError> {
        self.not_recording("write");
        to.write(at, bytes);
        Ok(())
    }

    fn read(&mut self, from: &HostBuffer, at: usize, bytes: &mut [u8]) -> Result<(), OpsError> {
        self.not_recording("read");
        from.read(at, bytes);
        self.read.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(())
    }

    fn free_bytes(&self) -> Result<usize, OpsError> {
        Ok(self.total - self.used.load(Ordering::Relaxed))
    }

    fn prepare(&mut self, _: Gemm<'_, HostBuffer>) -> Result<(), OpsError> {
        self.not_recording("prepare");
        Ok(())
    }

    fn embed(&mut self, op: Embed<'_, HostBuffer>) -> Result<(), OpsError> {
        self.note(&op);
        let width = op.table.inputs;
        for (row, token) in op.tokens.indices(0, op.rows).into_iter().enumerate() {
            assert!(
                (token as usize) < op.table.outputs,
                "token {token} has a row"
            );
            let values = &op.table.values;
            let numbers = values.numbers(op.table.dtype, token as usize * width, width);
            op.residual.store(Dtype::F32, row * width, &numbers);
        }
        Ok(())
    }

    fn norm(&mut self, op: Norm<'_, HostBuffer>) -> Result<(), OpsError> {
        self.note(&op);
        let Norm { rows, width, .. } = op;
        let weight = op.weight.numbers(Dtype::F32, 0, width);
        for row in 0..rows {
            let at = row * width;
            let mut numbers = op.residual.numbers(Dtype::F32, at, width);
            if let Some(addition) = &op.addition {
                let added = product_row(addition, row, width);
                numbers
                    .iter_mut()
                    .zip(added)
                    .for_each(|(to, added)| *to += added);
                op.residual.store(Dtype::F32, at, &numbers);
            }
            let mean = dot(&numbers, &numbers) / width as f64;
            let factor = (1.0 / (mean + f64::from(op.epsilon)).sqrt()) as f32;
            for (number, weight) in numbers.iter_mut().zip(&weight) {
                *number *= factor * weight;
            }
            store_row(&op.out, row, numbers);
        }
        Ok(())
    }

    fn gemm(&mut self, op: Gemm<'_, HostBuffer>) -> Result<(), OpsError> {
        self.note(&op);
        check_product(&op);
        let Weight {
            outputs, inputs, ..
        } = *op.weight;
        let rows: Vec<_> = (0..op.rows)
            .map(|row| activation_row(&op.input, row, inputs))
            .collect();
        let mut sums = vec![0.0; op.rows * outputs];
        let row_bytes = inputs * op.weight.dtype.bytes();
        op.weight.values.with(0, outputs * row_bytes, |bytes| {
            let mut weights = Vec::with_capacity(inputs);
            for (output, bytes) in bytes.chunks_exact(row_bytes).enumerate() {
                weights.clear();
                decode(op.weight.dtype, bytes, &mut weights);
                for (row, numbers) in rows.iter().enumerate() {
                    sums[row * outputs + output] = dot(numbers, &weights) as f32;
                }
            }
        });
        op.out.store(op.out_dtype, 0, &sums);
        Ok(())
    }

    fn rotate_store(&mut self, op: RotateStore<'_, HostBuffer>) -> Result<(), OpsError> {
        self.note(&op);
        let size = op.pages.head_size;
        let queries = op.heads * size;
        let keys = op.pages.kv_heads * size;
        let width = queries + 2 * keys;
        let bias = op.bias.map(|bias| bias.numbers(Dtype::F32, 0, width));
        let positions = op.rows.positions.indices(0, op.rows.count);
        let tables = op.rows.tables.indices(0, op.rows.count);
        for (row, (position, table)) in positions.into_iter().zip(tables).enumerate() {
            if table == PADDING {
                op.queries
                    .store(op.qkv.dtype, row * queries, &vec![0.0; queries]);
                continue;
            }
            let mut numbers = product_row(&op.qkv, row, width);
            if let Some(bias) = &bias {
                numbers
                    .iter_mut()
                    .zip(bias)
                    .for_each(|(to, bias)| *to += bias);
            }
            let angles = op
                .angles
                .numbers(Dtype::F32, position as usize * size, size);
            for head in numbers[..queries + keys].chunks_exact_mut(size) {
                turn(head, &angles, op.pairs);
            }
            op.queries
                .store(op.qkv.dtype, row * queries, &numbers[..queries]);
            let (new_keys, new_values) = numbers[queries..].split_at(keys);
            let block = attention::block_of(&op.rows, table, position);
            let token = position as usize % super::PAGE_TOKENS;
            attention::store(&op.pages, block, token, (new_keys, new_values));
        }
        Ok(())
    }

    fn attend(&mut self, op: Attend<'_, HostBuffer>) -> Result<(), OpsError> {
        self.note(&op);
        assert!(
            self.recording.is_none() || op.prefills.is_empty(),
            "a recorded step has no spans"
        );
        attention::attend(&op);
        Ok(())
    }

    fn gate(&mut self, op: Gate<'_, HostBuffer>) -> Result<(), OpsError> {
        self.note(&op);
        for row in 0..op.rows {
            let both = product_row(&op.gate_up, row, 2 * op.width);
            let (gates, ups) = both.split_at(op.width);
            let gated = gates.iter().zip(ups).map(|(gate, up)| {
                let gate = f64::from(*gate);
                (gate / (1.0 + (-gate).exp())) as f32 * up
            });
            store_row(&op.out, row, gated.collect());
        }
        Ok(())
    }

    fn draw(&mut self, op: Draw<'_, HostBuffer>) -> Result<(), OpsError> {
        self.note(&op);
        for row in 0..op.rows {
            let words = op.draws.indices(row * DrawRow::WORDS, DrawRow::WORDS);
            let draw = DrawRow::decode(&words);
            let token = match draw.pick() {
                Some(pick) => {
                    let first = row * op.vocabulary;
                    let mut logits = op.logits.numbers(Dtype::F32, first, op.vocabulary);
                    forbid(&mut logits, draw.forbidden());
                    op.logits.store(Dtype::F32, first, &logits);
                    self.sampler.pick(&logits, pick).unwrap_or(PADDING)
                }
                None => PADDING,
            };
            op.tokens.write(row * 4, &token.to_le_bytes());
        }
        Ok(())
    }

    fn fill_random(&mut self, op: FillRandom<'_, HostBuffer>) -> Result<(), OpsError> {
        self.note(&op);
        let numbers: Vec<_> = (0..op.count as u64)
            .map(|place| random_normal(op.seed, place) * op.deviation)
            .collect();
        op.to.store(op.dtype, 0, &numbers);
        Ok(())
    }

    fn recorded(
        &mut self,
        key: RecordKey,
        step: &mut dyn FnMut(&mut Self) -> Result<(), OpsError>,
    ) -> Result<(), OpsError> {
        self.not_recording("record another");
        self.recording = Some(Vec::new());
        let done = step(self);
        let operations = self.recording.take().unwrap_or_default();
        done?;
        let known = self
            .recordings
            .entry(key)
            .or_insert_with(|| operations.clone());
        assert_eq!(*known, operations, "{key:?} is always the same step");
        Ok(())
    }
}
