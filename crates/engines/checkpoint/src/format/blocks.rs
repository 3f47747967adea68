//! One block of each quantised format, as ggml lays it out, taken apart.

use super::{Format, f16_to_f32};

/// A number is `scale * code + offset`, and the sum is the only thing that is rounded.
#[derive(Debug)]
pub struct Block {
    pub codes: [i8; 256],
    /// One for each 32 codes, for each 16 in [`Format::Q6K`].
    pub scales: [f32; 16],
    pub offsets: [f32; 16],
}

impl Default for Block {
    fn default() -> Self {
        Self {
            codes: [0; 256],
            scales: [0.0; 16],
            offsets: [0.0; 16],
        }
    }
}

impl Block {
    /// Takes a block apart. Offsets are added, whatever the format's sign is.
    pub fn take(&mut self, format: Format, block: &[u8]) {
        let half = |at: usize| f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]));
        match format {
            Format::Q8_0 => {
                self.scales[0] = half(0);
                for (code, byte) in self.codes.iter_mut().zip(&block[2..34]) {
                    *code = *byte as i8;
                }
            }
            Format::Q4_0 => {
                self.scales[0] = half(0);
                self.nibbles(&block[2..18]);
                self.codes[..32].iter_mut().for_each(|code| *code -= 8);
            }
            Format::Q4_1 => {
                (self.scales[0], self.offsets[0]) = (half(0), half(2));
                self.nibbles(&block[4..20]);
            }
            Format::Q5_0 => {
                self.scales[0] = half(0);
                self.nibbles(&block[6..22]);
                self.fifth_bits(&block[2..6], -16);
            }
            Format::Q5_1 => {
                (self.scales[0], self.offsets[0]) = (half(0), half(2));
                self.nibbles(&block[8..24]);
                self.fifth_bits(&block[4..8], 0);
            }
            Format::Q4K => {
                self.k_scales(half(0), half(2), &block[4..16]);
                for (pair, codes) in block[16..144].chunks_exact(32).enumerate() {
                    for (index, byte) in codes.iter().enumerate() {
                        self.codes[64 * pair + index] = (byte & 15) as i8;
                        self.codes[64 * pair + 32 + index] = (byte >> 4) as i8;
                    }
                }
            }
            Format::Q5K => {
                self.k_scales(half(0), half(2), &block[4..16]);
                let high = &block[16..48];
                for (pair, codes) in block[48..176].chunks_exact(32).enumerate() {
                    for (index, byte) in codes.iter().enumerate() {
                        let fifth = |bit: usize| (high[index] >> (2 * pair + bit) & 1) << 4;
                        self.codes[64 * pair + index] = (byte & 15 | fifth(0)) as i8;
                        self.codes[64 * pair + 32 + index] = (byte >> 4 | fifth(1)) as i8;
                    }
                }
            }
            Format::Q6K => self.six(block, half(208)),
            Format::F32 | Format::F16 | Format::Bf16 | Format::E4m3 => {
                unreachable!("formats in blocks only")
            }
        }
    }

    /// The lower halves of the bytes first, then the upper ones.
    fn nibbles(&mut self, bytes: &[u8]) {
        for (index, byte) in bytes.iter().enumerate() {
            self.codes[index] = (byte & 15) as i8;
            self.codes[index + 16] = (byte >> 4) as i8;
        }
    }

    fn fifth_bits(&mut self, bytes: &[u8], shift: i8) {
        let bits = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        for (index, code) in self.codes[..32].iter_mut().enumerate() {
            *code = (*code | ((bits >> index & 1) << 4) as i8) + shift;
        }
    }

    /// Eight scales and eight offsets of six bits each, in twelve bytes.
    fn k_scales(&mut self, scale: f32, least: f32, packed: &[u8]) {
        for index in 0..8 {
            let (by, minus) = if index < 4 {
                (packed[index] & 63, packed[index + 4] & 63)
            } else {
                (
                    packed[index + 4] & 15 | (packed[index - 4] >> 6) << 4,
                    packed[index + 4] >> 4 | (packed[index] >> 6) << 4,
                )
            };
            self.scales[index] = scale * f32::from(by);
            self.offsets[index] = -(least * f32::from(minus));
        }
    }

    fn six(&mut self, block: &[u8], scale: f32) {
        let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
        for half in 0..2 {
            for index in 0..32 {
                let top = high[32 * half + index];
                let (first, second) = (low[64 * half + index], low[64 * half + 32 + index]);
                let codes = [
                    first & 15 | (top & 3) << 4,
                    second & 15 | (top >> 2 & 3) << 4,
                    first >> 4 | (top >> 4 & 3) << 4,
                    second >> 4 | (top >> 6 & 3) << 4,
                ];
                for (quarter, code) in codes.into_iter().enumerate() {
                    self.codes[128 * half + 32 * quarter + index] = code as i8 - 32;
                }
            }
        }
        for (to, by) in self.scales.iter_mut().zip(scales) {
            *to = scale * f32::from(*by as i8);
        }
    }
}

/// What the blocks of a row stand for.
pub(super) fn dequantise(format: Format, bytes: &[u8], numbers: &mut [f32]) {
    let (length, size) = (format.block_len(), format.block_bytes());
    let shared = match format {
        Format::Q6K => 16,
        Format::Q8_0
        | Format::Q4_0
        | Format::Q4_1
        | Format::Q5_0
        | Format::Q5_1
        | Format::Q4K
        | Format::Q5K
        | Format::F32
        | Format::F16
        | Format::Bf16
        | Format::E4m3 => 32,
    };
    let mut block = Block::default();
    for (bytes, numbers) in bytes
        .chunks_exact(size)
        .zip(numbers.chunks_exact_mut(length))
    {
        block.take(format, bytes);
        for (index, number) in numbers.iter_mut().enumerate() {
            let (scale, code) = (block.scales[index / shared], block.codes[index]);
            let product = scale * f32::from(code);
            *number = match format.has_offsets() {
                true => product + block.offsets[index / shared],
                // Nothing added keeps the sign of a zero.
                false => product,
            };
        }
    }
}
