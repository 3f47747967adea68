//! A weight matrix in memory: as small as in its file, ordered for the kernels.
//!
//! Sixteen rows lie side by side ("a stripe"), column after column, so that one load brings
//! the same column of sixteen rows and a product needs no sum across lanes. Quantised columns
//! come in blocks, each with a scale and perhaps an offset for every row: a number is
//! `scale * code + offset`. Values are those of the file, to the bit.

mod pack;
#[cfg(test)]
mod tests;

pub(crate) use self::pack::Packer;
use crate::kernels::LANES;

/// Columns that share a scale, but for [`Codes::Fine`]. Columns are filled up to whole ones.
pub(crate) const BLOCK: usize = 32;
pub(crate) const FINE_BLOCK: usize = 16;

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

impl<C, S> Quantised<C, S> {
    fn bytes(&self) -> usize {
        size_of_val(&*self.codes) + size_of_val(&*self.scales) + size_of_val(&*self.offsets)
    }
}

impl Matrix {
    pub(crate) fn stripes(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    pub(crate) fn blocks(&self) -> usize {
        self.columns.div_ceil(BLOCK)
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        match &self.codes {
            Codes::F32(values) => size_of_val(&**values),
            Codes::F16(values) | Codes::Bf16(values) => size_of_val(&**values),
            Codes::FourF16(quantised) => quantised.bytes(),
            Codes::FourF32(quantised) => quantised.bytes(),
            Codes::EightF16(quantised) => quantised.bytes(),
            Codes::EightF32(quantised) | Codes::Fine(quantised) => quantised.bytes(),
        }
    }
}
