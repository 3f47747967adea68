//! Numbers to check with, on either device.

use cuda::numbers::{decode, encode};
use cuda::ops::{Dtype, Ops, OpsError};

/// Deterministic random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// From 0 to 1.
    pub(crate) fn share(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 24) as f32
    }

    /// About normal: the sum of four uniform numbers.
    pub(crate) fn numbers(&mut self, count: usize, deviation: f32) -> Vec<f32> {
        let normal = |random: &mut Self| {
            let sum = random.share() + random.share() + random.share() + random.share();
            (sum - 2.0) * 3f32.sqrt() * deviation
        };
        (0..count).map(|_| normal(self)).collect()
    }

    /// Numbers such as scales are.
    pub(crate) fn scales(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| 0.5 + self.share()).collect()
    }

    /// A table of different blocks.
    pub(crate) fn shuffled(&mut self, count: usize) -> Vec<u32> {
        let mut blocks: Vec<u32> = (0..count as u32).collect();
        for i in (1..count).rev() {
            blocks.swap(i, self.below(i + 1));
        }
        blocks
    }
}

/// Memory with numbers as they are stored.
pub(crate) fn put<O: Ops>(
    ops: &mut O,
    dtype: Dtype,
    numbers: &[f32],
) -> Result<O::Buffer, OpsError> {
    let mut bytes = Vec::new();
    encode(dtype, numbers, &mut bytes);
    put_bytes(ops, &bytes)
}

pub(crate) fn put_indices<O: Ops>(ops: &mut O, indices: &[u32]) -> Result<O::Buffer, OpsError> {
    let bytes: Vec<u8> = indices
        .iter()
        .flat_map(|index| index.to_le_bytes())
        .collect();
    put_bytes(ops, &bytes)
}

pub(crate) fn put_bytes<O: Ops>(ops: &mut O, bytes: &[u8]) -> Result<O::Buffer, OpsError> {
    let buffer = ops.allocate(bytes.len())?;
    ops.write(&buffer, 0, bytes)?;
    Ok(buffer)
}

/// Memory full of what is no number in any format.
pub(crate) fn poisoned<O: Ops>(ops: &mut O, bytes: usize) -> Result<O::Buffer, OpsError> {
    put_bytes(ops, &vec![0xff; bytes])
}

pub(crate) fn get<O: Ops>(
    ops: &mut O,
    from: &O::Buffer,
    dtype: Dtype,
    count: usize,
) -> Result<Vec<f32>, OpsError> {
    let mut bytes = vec![0; count * dtype.bytes()];
    ops.read(from, 0, &mut bytes)?;
    let mut numbers = Vec::with_capacity(count);
    decode(dtype, &bytes, &mut numbers);
    Ok(numbers)
}

/// Rows where an operation puts activations.
pub(crate) struct Out<O: Ops> {
    pub(crate) values: O::Buffer,
    pub(crate) scales: O::Buffer,
    pub(crate) dtype: Dtype,
    rows: usize,
    width: usize,
}

impl<O: Ops> Out<O> {
    pub(crate) fn new(
        ops: &mut O,
        dtype: Dtype,
        rows: usize,
        width: usize,
    ) -> Result<Self, OpsError> {
        Ok(Self {
            values: poisoned(ops, rows * width * dtype.bytes())?,
            scales: poisoned(ops, rows * 4)?,
            dtype,
            rows,
            width,
        })
    }

    pub(crate) fn activations(&self) -> cuda::ops::Activations<'_, O::Buffer> {
        cuda::ops::Activations {
            values: &self.values,
            dtype: self.dtype,
            scales: (self.dtype == Dtype::Fp8).then_some(&self.scales),
        }
    }

    /// What the rows stand for.
    pub(crate) fn numbers(&self, ops: &mut O) -> Result<Vec<f32>, OpsError> {
        let mut numbers = get(ops, &self.values, self.dtype, self.rows * self.width)?;
        if self.dtype == Dtype::Fp8 {
            let scales = get(ops, &self.scales, Dtype::F32, self.rows)?;
            for (row, scale) in numbers.chunks_exact_mut(self.width).zip(scales) {
                row.iter_mut().for_each(|number| *number *= scale);
            }
        }
        Ok(numbers)
    }
}

/// The length of the difference over that of what was expected; infinite where one is a number and the
/// other is not.
pub(crate) fn distance(results: &[f32], expected: &[f32]) -> f64 {
    if results.len() != expected.len() {
        return f64::INFINITY;
    }
    let (mut difference, mut length) = (0.0, 0.0);
    for (result, expected) in results.iter().zip(expected) {
        if result.is_nan() && expected.is_nan() {
            continue;
        }
        let (result, expected) = (f64::from(*result), f64::from(*expected));
        difference += (result - expected).powi(2);
        length += expected.powi(2);
    }
    let distance = (difference / f64::max(length, f64::MIN_POSITIVE)).sqrt();
    if distance.is_nan() {
        f64::INFINITY
    } else {
        distance
    }
}
