//! How numbers are stored, and what they stand for.
//!
//! Quantised formats are those of GGUF, where a row is cut into blocks, each with its own scale, and
//! E4M3, whose scales are tensors of their own.

mod blocks;
mod half;
#[cfg(test)]
mod tests;

use std::fmt;

pub use blocks::Block;
pub use half::{bf16_to_f32, e4m3_to_f32, f16_to_f32};

/// A way to store a row of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    F32,
    F16,
    Bf16,
    /// Eight bits of Hugging Face folders, without the scale of the row.
    E4m3,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q4K,
    Q5K,
    Q6K,
}

impl Format {
    pub const ALL: [Self; 12] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::E4m3,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// As GGUF's tools or safetensors write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::E4m3 => "F8_E4M3",
            Self::Q8_0 => "Q8_0",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Numbers in a block.
    pub const fn block_len(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 | Self::E4m3 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::E4m3 => 1,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Bytes of a row, or none if it is not whole blocks or too long to count.
    pub const fn bytes_for(self, columns: usize) -> Option<usize> {
        if columns.is_multiple_of(self.block_len()) {
            (columns / self.block_len()).checked_mul(self.block_bytes())
        } else {
            None
        }
    }

    /// What a row's bytes stand for, bit for bit as ggml has it; E4M3 before it is scaled.
    ///
    /// # Panics
    ///
    /// If `bytes` is not what [`Format::bytes_for`] says of so many numbers.
    pub fn dequantise(self, bytes: &[u8], numbers: &mut [f32]) {
        assert_eq!(
            self.bytes_for(numbers.len()),
            Some(bytes.len()),
            "a row of {} numbers in {self}",
            numbers.len()
        );
        match self {
            Self::F32 => plain(bytes, numbers, f32::from_le_bytes),
            Self::F16 => plain(bytes, numbers, |half| f16_to_f32(u16::from_le_bytes(half))),
            Self::Bf16 => plain(bytes, numbers, |half| bf16_to_f32(u16::from_le_bytes(half))),
            Self::E4m3 => plain(bytes, numbers, |[code]| e4m3_to_f32(code)),
            Self::Q8_0
            | Self::Q4_0
            | Self::Q4_1
            | Self::Q5_0
            | Self::Q5_1
            | Self::Q4K
            | Self::Q5K
            | Self::Q6K => blocks::dequantise(self, bytes, numbers),
        }
    }

    /// Whether blocks have offsets beside their scales.
    pub(crate) const fn has_offsets(self) -> bool {
        match self {
            Self::Q4_1 | Self::Q5_1 | Self::Q4K | Self::Q5K => true,
            Self::F32
            | Self::F16
            | Self::Bf16
            | Self::E4m3
            | Self::Q8_0
            | Self::Q4_0
            | Self::Q5_0
            | Self::Q6K => false,
        }
    }
}

fn plain<const B: usize>(bytes: &[u8], numbers: &mut [f32], number: impl Fn([u8; B]) -> f32) {
    let (chunks, _) = bytes.as_chunks::<B>();
    for (chunk, to) in chunks.iter().zip(numbers) {
        *to = number(*chunk);
    }
}

impl fmt::Display for Format {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.name())
    }
}
