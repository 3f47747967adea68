//! A weight matrix in memory: as small as in its file, ordered for the kernels.
//!
//! Sixteen rows lie side by side ("a stripe"), column after column, so that one load brings
//! the same column of sixteen rows and a product needs no sum across lanes. Quantised columns
//! come in blocks, each with a scale and perhaps an offset for every row: a number is
//! `scale * code + offset`. Values are those of the file, to the bit.
//!
//! FP8 has a scale for every row. Its codes become BF16, which has all of their numbers and which
//! kernels read: twice the file's size, where rounded or 32-bit products of the two would be less exact
//! or twice as large again.

mod pack;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use self::pack::Packer;
use crate::layout::{BLOCK, FINE_BLOCK, LANES};
use checkpoint::format::{bf16_to_f32, f16_to_f32};

/// Why a tensor cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatrixError {
    #[error("row {row} has a number that is not finite")]
    NotFinite { row: usize },
    #[error("its {have} bytes are not {rows} rows of {columns} numbers")]
    Size {
        have: usize,
        rows: usize,
        columns: usize,
    },
}

/// What a product needs of one matrix.
#[derive(Debug)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) codes: Codes,
}

/// Stripe after stripe; in it column after column, sixteen rows each.
#[derive(Debug)]
pub(crate) enum Codes {
    F32(Vec<f32>),
    F16(Vec<u16>),
    Bf16(Vec<u16>),
    /// BF16 with a scale for every row.
    ByRow(ByRow),
    /// Eight columns of a row to a word, the first lowest.
    FourF16(Quantised<u32, u16>),
    FourF32(Quantised<u32, f32>),
    EightF16(Quantised<i8, u16>),
    EightF32(Quantised<i8, f32>),
    /// With a scale for every sixteen columns.
    Fine(Quantised<i8, f32>),
}

/// Codes, and sixteen scales for each block of each stripe.
#[derive(Debug, Default)]
pub(crate) struct Quantised<C, S> {
    pub(crate) codes: Vec<C>,
    pub(crate) scales: Vec<S>,
    /// As many as scales, or none.
    pub(crate) offsets: Vec<S>,
}

/// Codes in BF16, and sixteen scales for each stripe.
#[derive(Debug)]
pub(crate) struct ByRow {
    pub(crate) codes: Vec<u16>,
    pub(crate) scales: Vec<f32>,
}

/// How numbers are read out of [`Quantised`].
struct Reading<C, S> {
    /// The code of a cell.
    code: C,
    /// What a scale or an offset stands for.
    scale: S,
    /// Columns that share a scale.
    block: usize,
}

impl<C: Copy, S: Copy> Quantised<C, S> {
    /// Writes `scale * code + offset` to each cell of a row.
    fn each<'a>(
        &self,
        cells: impl Iterator<Item = (usize, &'a mut f32)>,
        place: impl Fn(usize) -> usize,
        reading: Reading<impl Fn(&[C], usize) -> f32, impl Fn(S) -> f32>,
    ) {
        let Reading { code, scale, block } = reading;
        for (column, to) in cells {
            let cell = place(column);
            let shared = cell / LANES / block * LANES + cell % LANES;
            let offset = self
                .offsets
                .get(shared)
                .map_or(0.0, |offset| scale(*offset));
            *to = scale(self.scales[shared]) * code(&self.codes, cell) + offset;
        }
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.codes) + size_of_val(&*self.scales) + size_of_val(&*self.offsets)
    }
}

fn four(codes: &[u32], cell: usize) -> f32 {
    let (column, lane) = (cell / LANES, cell % LANES);
    (codes[column / 8 * LANES + lane] >> (4 * (column % 8)) & 15) as f32
}

fn eight(codes: &[i8], cell: usize) -> f32 {
    f32::from(codes[cell])
}

fn itself(scale: f32) -> f32 {
    scale
}

fn reading<C, S>(code: C, scale: S, block: usize) -> Reading<C, S> {
    Reading { code, scale, block }
}

impl Matrix {
    pub(crate) fn stripes(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    pub(crate) fn blocks(&self) -> usize {
        self.columns.div_ceil(BLOCK)
    }

    /// The numbers of one row, at the beginning of `to`.
    pub(crate) fn row(&self, row: usize, to: &mut [f32]) {
        let columns = self.blocks() * BLOCK;
        let start = (row / LANES * columns) * LANES + row % LANES;
        let place = |column: usize| start + column * LANES;
        let cells = to[..self.columns].iter_mut().enumerate();
        match &self.codes {
            Codes::F32(values) => cells.for_each(|(column, to)| *to = values[place(column)]),
            Codes::F16(values) => {
                cells.for_each(|(column, to)| *to = f16_to_f32(values[place(column)]));
            }
            Codes::Bf16(values) => {
                cells.for_each(|(column, to)| *to = bf16_to_f32(values[place(column)]));
            }
            Codes::ByRow(from) => cells.for_each(|(column, to)| {
                *to = from.scales[row] * bf16_to_f32(from.codes[place(column)]);
            }),
            Codes::FourF16(from) => from.each(cells, place, reading(four, f16_to_f32, BLOCK)),
            Codes::FourF32(from) => from.each(cells, place, reading(four, itself, BLOCK)),
            Codes::EightF16(from) => from.each(cells, place, reading(eight, f16_to_f32, BLOCK)),
            Codes::EightF32(from) => from.each(cells, place, reading(eight, itself, BLOCK)),
            Codes::Fine(from) => from.each(cells, place, reading(eight, itself, FINE_BLOCK)),
        }
    }

    /// Sets what each row is multiplied by; only FP8 has that.
    pub(crate) fn scale_rows(&mut self, scales: &[f32]) {
        if let Codes::ByRow(rows) = &mut self.codes {
            rows.scales[..scales.len()].copy_from_slice(scales);
        }
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.codes {
            Codes::F32(values) => size_of_val(&**values),
            Codes::F16(values) | Codes::Bf16(values) => size_of_val(&**values),
            Codes::ByRow(ByRow { codes, scales }) => size_of_val(&**codes) + size_of_val(&**scales),
            Codes::FourF16(quantised) => quantised.bytes(),
            Codes::FourF32(quantised) => quantised.bytes(),
            Codes::EightF16(quantised) => quantised.bytes(),
            Codes::EightF32(quantised) | Codes::Fine(quantised) => quantised.bytes(),
        }
    }
}
