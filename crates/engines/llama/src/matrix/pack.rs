//! From the order of the files to the order of the kernels.

use super::{ByRow, Codes, Matrix, MatrixError, Quantised};
use crate::layout::{BLOCK, FINE_BLOCK, LANES};
use checkpoint::format::{Block, Format, bf16_to_f32, e4m3_to_f32, f16_to_f32};

/// Builds a matrix row by row.
#[derive(Debug)]
pub(crate) struct Packer {
    format: Format,
    rows: usize,
    columns: usize,
    /// Columns with those that fill the last block.
    padded: usize,
    codes: Codes,
}

impl Packer {
    pub(crate) fn new(format: Format, rows: usize, columns: usize) -> Self {
        let padded = columns.next_multiple_of(BLOCK);
        let stripes = rows.div_ceil(LANES);
        let cells = stripes * LANES * padded;
        let scales = cells / BLOCK;
        let codes = match format {
            Format::F32 => Codes::F32(vec![0.0; cells]),
            Format::F16 => Codes::F16(vec![0; cells]),
            Format::Bf16 => Codes::Bf16(vec![0; cells]),
            Format::E4m3 => Codes::ByRow(ByRow {
                codes: vec![0; cells],
                scales: vec![1.0; stripes * LANES],
            }),
            Format::Q4_0 | Format::Q4_1 => Codes::FourF16(quantised(cells / 8, scales, true)),
            Format::Q4K => Codes::FourF32(quantised(cells / 8, scales, true)),
            Format::Q8_0 | Format::Q5_0 => Codes::EightF16(quantised(cells, scales, false)),
            Format::Q5_1 => Codes::EightF16(quantised(cells, scales, true)),
            Format::Q5K => Codes::EightF32(quantised(cells, scales, true)),
            Format::Q6K => Codes::Fine(quantised(cells, cells / FINE_BLOCK, false)),
        };
        Self {
            format,
            rows,
            columns,
            padded,
            codes,
        }
    }

    /// Packs rows that are stored one after the other, from row `first` of the matrix.
    pub(crate) fn rows(&mut self, first: usize, bytes: &[u8]) -> Result<(), MatrixError> {
        let row_bytes = self.format.bytes_for(self.columns).unwrap_or(0);
        let count = bytes.len().checked_div(row_bytes).unwrap_or(0);
        if row_bytes == 0 || !bytes.len().is_multiple_of(row_bytes) || first + count > self.rows {
            return Err(MatrixError::Size {
                have: bytes.len(),
                rows: self.rows - first.min(self.rows),
                columns: self.columns,
            });
        }
        for (index, row) in bytes.chunks_exact(row_bytes).enumerate() {
            let row_index = first + index;
            if !self.row(row_index, row) {
                return Err(MatrixError::NotFinite { row: row_index });
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Matrix {
        Matrix {
            rows: self.rows,
            columns: self.columns,
            codes: self.codes,
        }
    }

    /// Whether all its numbers are finite.
    fn row(&mut self, row: usize, bytes: &[u8]) -> bool {
        let (stripe, lane) = (row / LANES, row % LANES);
        let start = stripe * LANES * self.padded + lane;
        let halves = |at: usize| u16::from_le_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        let place = |column: usize| start + column * LANES;
        match &mut self.codes {
            Codes::F32(cells) => (0..self.columns).all(|column| {
                let word: [u8; 4] = std::array::from_fn(|byte| bytes[4 * column + byte]);
                let value = f32::from_le_bytes(word);
                cells[place(column)] = value;
                value.is_finite()
            }),
            Codes::F16(cells) => (0..self.columns).all(|column| {
                cells[place(column)] = halves(column);
                f16_to_f32(halves(column)).is_finite()
            }),
            Codes::Bf16(cells) => (0..self.columns).all(|column| {
                cells[place(column)] = halves(column);
                bf16_to_f32(halves(column)).is_finite()
            }),
            Codes::ByRow(rows) => (0..self.columns).all(|column| {
                let value = e4m3_to_f32(bytes[column]);
                // Three bits of its fraction and zeros: the upper half is all of it.
                rows.codes[place(column)] = (value.to_bits() >> 16) as u16;
                value.is_finite()
            }),
            Codes::FourF16(_)
            | Codes::FourF32(_)
            | Codes::EightF16(_)
            | Codes::EightF32(_)
            | Codes::Fine(_) => self.quantised_row(stripe, lane, bytes),
        }
    }

    fn quantised_row(&mut self, stripe: usize, lane: usize, bytes: &[u8]) -> bool {
        let (length, size) = (self.format.block_len(), self.format.block_bytes());
        // Four bits hold no sign: what was taken off is put back, and goes into the offset.
        let signed = self.format == Format::Q4_0;
        let mut parts = Block::default();
        for (index, bytes) in bytes.chunks_exact(size).enumerate() {
            parts.take(self.format, bytes);
            if signed {
                parts.codes[..length].iter_mut().for_each(|code| *code += 8);
                parts.offsets[0] = -8.0 * parts.scales[0];
                if parts.offsets[0].abs() > LARGEST_F16 {
                    parts.offsets[0] = f32::INFINITY;
                }
            }
            let finite = |values: &[f32; 16]| values.iter().all(|value| value.is_finite());
            if !finite(&parts.scales) || !finite(&parts.offsets) {
                return false;
            }
            let place = BlockSpan {
                cell: (stripe * self.padded + index * length) * LANES + lane,
                length,
            };
            match &mut self.codes {
                Codes::FourF16(to) => place.four(to, &parts, f32_to_f16),
                Codes::FourF32(to) => place.four(to, &parts, |value| value),
                Codes::EightF16(to) => place.eight(to, &parts, f32_to_f16),
                Codes::EightF32(to) | Codes::Fine(to) => place.eight(to, &parts, |value| value),
                Codes::F32(_) | Codes::F16(_) | Codes::Bf16(_) | Codes::ByRow(_) => {
                    unreachable!("quantised formats only")
                }
            }
        }
        true
    }
}

fn quantised<C: Copy + Default, S: Copy + Default>(
    codes: usize,
    scales: usize,
    offsets: bool,
) -> Quantised<C, S> {
    Quantised {
        codes: vec![C::default(); codes],
        scales: vec![S::default(); scales],
        offsets: vec![S::default(); if offsets { scales } else { 0 }],
    }
}

/// Where a block of one row begins, and how long it is.
struct BlockSpan {
    /// Of the first code, were they a byte each.
    cell: usize,
    length: usize,
}

impl BlockSpan {
    fn four<S: Copy>(&self, to: &mut Quantised<u32, S>, parts: &Block, store: impl Fn(f32) -> S) {
        let lane = self.cell % LANES;
        for (column, code) in parts.codes[..self.length].iter().enumerate() {
            let word = self.cell / LANES + column;
            let shift = 4 * (word % 8);
            to.codes[word / 8 * LANES + lane] |= (*code as u8 as u32) << shift;
        }
        self.scales(to, parts, BLOCK, store);
    }

    fn eight<S: Copy>(&self, to: &mut Quantised<i8, S>, parts: &Block, store: impl Fn(f32) -> S) {
        for (column, code) in parts.codes[..self.length].iter().enumerate() {
            to.codes[self.cell + column * LANES] = *code;
        }
        let fine = to.codes.len() == to.scales.len() * FINE_BLOCK;
        self.scales(to, parts, if fine { FINE_BLOCK } else { BLOCK }, store);
    }

    fn scales<C, S: Copy>(
        &self,
        to: &mut Quantised<C, S>,
        parts: &Block,
        block: usize,
        store: impl Fn(f32) -> S,
    ) {
        let lane = self.cell % LANES;
        let first = self.cell / LANES / block;
        for index in 0..self.length / block {
            let at = (first + index) * LANES + lane;
            to.scales[at] = store(parts.scales[index]);
            if let Some(offset) = to.offsets.get_mut(at) {
                *offset = store(parts.offsets[index]);
            }
        }
    }
}

const LARGEST_F16: f32 = 65504.0;

/// Back to what it was read as; -8 times it only moves the exponent.
fn f32_to_f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let magnitude = f32::from_bits(bits & 0x7fff_ffff);
    // Subnormal halves are whole multiples of the smallest.
    if magnitude < f16_to_f32(0x0400) {
        return sign | (magnitude * (1u32 << 24) as f32) as u16;
    }
    let exponent = (bits >> 23 & 255) as i32 - 127 + 15;
    sign | ((exponent as u16) << 10) | (bits >> 13 & 0x3ff) as u16
}
