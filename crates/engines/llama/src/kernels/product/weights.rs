//! How the loop of [`super::tile`] reads each kind of matrix.
//!
//! Nothing is checked here, in the innermost loop: callers guarantee the place that they read,
//! and `Packer::new` for as many codes, scales and offsets as a matrix has places.

use std::marker::PhantomData;

use super::Weights;
use crate::kernels::lanes::Lanes;
use crate::layout::{BLOCK, LANES};
use crate::matrix::{self, Quantised};

/// Numbers of one kind become lanes.
pub(super) trait Stored<L: Lanes> {
    type Raw: Copy;
    /// # Safety
    ///
    /// The processor has the instructions of `L`, and there are sixteen numbers at `from`.
    unsafe fn load(from: *const Self::Raw) -> L;
}

pub(super) struct Single;
pub(super) struct Half;
pub(super) struct Bf16Weights;

impl<L: Lanes> Stored<L> for Single {
    type Raw = f32;
    #[inline(always)]
    unsafe fn load(from: *const f32) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::load(from) }
    }
}

impl<L: Lanes> Stored<L> for Half {
    type Raw = u16;
    #[inline(always)]
    unsafe fn load(from: *const u16) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::from_f16(from) }
    }
}

impl<L: Lanes> Stored<L> for Bf16Weights {
    type Raw = u16;
    #[inline(always)]
    unsafe fn load(from: *const u16) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::from_bf16(from) }
    }
}

/// Numbers without scales.
pub(super) struct Plain<'a, K, T> {
    values: &'a [T],
    /// In a stripe.
    blocks: usize,
    kind: PhantomData<K>,
}

impl<'a, K, T> Plain<'a, K, T> {
    pub(super) fn new(values: &'a [T], blocks: usize) -> Self {
        Self {
            values,
            blocks,
            kind: PhantomData,
        }
    }
}

impl<L: Lanes, K: Stored<L, Raw = T>, T: Copy> Weights<L> for Plain<'_, K, T> {
    const SHARED: usize = 0;
    const PLAIN: bool = true;
    type Eight = *const T;

    #[inline(always)]
    unsafe fn eight(&self, stripe: usize, eighth: usize) -> Self::Eight {
        let at = (stripe * self.blocks * BLOCK + eighth * 8) * LANES;
        // SAFETY: the caller guarantees the columns, so `at` is within the values.
        unsafe { self.values.as_ptr().add(at) }
    }
    #[inline(always)]
    unsafe fn column(eight: &mut Self::Eight) -> L {
        // SAFETY: the caller asks for no more than the eight columns that `eight` stands before.
        unsafe {
            let column = K::load(*eight);
            *eight = eight.add(LANES);
            column
        }
    }
    #[inline(always)]
    unsafe fn scale(&self, _: usize, _: usize) -> L {
        // SAFETY: the caller guarantees the instructions.
        unsafe { L::splat(1.0) }
    }
    #[inline(always)]
    unsafe fn offset(&self, _: usize, _: usize) -> L {
        // SAFETY: the caller guarantees the instructions.
        unsafe { L::splat(0.0) }
    }
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        false
    }
}

/// Numbers with a scale for each row.
///
/// Blocks take it one by one, as they do where each has its own: the loop is the same.
pub(super) struct ByRow<'a> {
    plain: Plain<'a, Bf16Weights, u16>,
    scales: &'a [f32],
}

impl<'a> ByRow<'a> {
    pub(super) fn new(rows: &'a matrix::ByRow, blocks: usize) -> Self {
        Self {
            plain: Plain::new(&rows.codes, blocks),
            scales: &rows.scales,
        }
    }
}

impl<'a, L: Lanes> Weights<L> for ByRow<'a> {
    const SHARED: usize = BLOCK;
    const PLAIN: bool = true;
    type Eight = <Plain<'a, Bf16Weights, u16> as Weights<L>>::Eight;

    #[inline(always)]
    unsafe fn eight(&self, stripe: usize, eighth: usize) -> Self::Eight {
        // SAFETY: the caller's promise is the same.
        unsafe { Weights::<L>::eight(&self.plain, stripe, eighth) }
    }
    #[inline(always)]
    unsafe fn column(eight: &mut Self::Eight) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { Plain::<Bf16Weights, u16>::column(eight) }
    }
    #[inline(always)]
    unsafe fn scale(&self, stripe: usize, _: usize) -> L {
        // SAFETY: the caller guarantees the stripe, and each has sixteen scales.
        unsafe { L::load(self.scales.as_ptr().add(stripe * LANES)) }
    }
    #[inline(always)]
    unsafe fn offset(&self, _: usize, _: usize) -> L {
        // SAFETY: the caller guarantees the instructions.
        unsafe { L::splat(0.0) }
    }
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        false
    }
}

/// Scales of either width.
pub(super) trait Scale: Copy {
    /// # Safety
    ///
    /// The processor has the instructions of `L`, and there are sixteen scales at `from`.
    unsafe fn lanes<L: Lanes>(from: *const Self) -> L;
}

impl Scale for f32 {
    #[inline(always)]
    unsafe fn lanes<L: Lanes>(from: *const Self) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::load(from) }
    }
}

impl Scale for u16 {
    #[inline(always)]
    unsafe fn lanes<L: Lanes>(from: *const Self) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { L::from_f16(from) }
    }
}

/// Codes of four bits, with the number of blocks in a stripe.
pub(super) struct Four<'a, S>(pub(super) &'a Quantised<u32, S>, pub(super) usize);

impl<L: Lanes, S: Scale> Weights<L> for Four<'_, S> {
    const SHARED: usize = BLOCK;
    const PLAIN: bool = false;
    type Eight = L::Words;

    #[inline(always)]
    unsafe fn eight(&self, stripe: usize, eighth: usize) -> Self::Eight {
        let at = (stripe * self.1 * (BLOCK / 8) + eighth) * LANES;
        // SAFETY: the caller guarantees the columns, so `at` is within the codes.
        unsafe { L::words(self.0.codes.as_ptr().add(at)) }
    }
    #[inline(always)]
    unsafe fn column(eight: &mut Self::Eight) -> L {
        let column = L::lowest(*eight);
        *eight = L::next(*eight);
        column
    }
    #[inline(always)]
    unsafe fn scale(&self, stripe: usize, block: usize) -> L {
        let at = (stripe * self.1 + block) * LANES;
        // SAFETY: the caller guarantees stripe and block, so `at` is within.
        unsafe { S::lanes(self.0.scales.as_ptr().add(at)) }
    }
    #[inline(always)]
    unsafe fn offset(&self, stripe: usize, block: usize) -> L {
        let at = (stripe * self.1 + block) * LANES;
        // SAFETY: the caller guarantees stripe and block and that there are offsets, so `at` is within.
        unsafe { S::lanes(self.0.offsets.as_ptr().add(at)) }
    }
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        !self.0.offsets.is_empty()
    }
}

/// Codes of eight bits in blocks of `B`, with the number of blocks in a stripe.
pub(super) struct Eight<'a, S, const B: usize>(pub(super) &'a Quantised<i8, S>, pub(super) usize);

impl<L: Lanes, S: Scale, const B: usize> Weights<L> for Eight<'_, S, B> {
    const SHARED: usize = B;
    const PLAIN: bool = false;
    type Eight = *const i8;

    #[inline(always)]
    unsafe fn eight(&self, stripe: usize, eighth: usize) -> Self::Eight {
        let at = (stripe * self.1 * B + eighth * 8) * LANES;
        // SAFETY: the caller guarantees the columns, so `at` is within the codes.
        unsafe { self.0.codes.as_ptr().add(at) }
    }
    #[inline(always)]
    unsafe fn column(eight: &mut Self::Eight) -> L {
        // SAFETY: the caller asks for no more than the eight columns that `eight` stands before.
        unsafe {
            let column = L::from_i8(*eight);
            *eight = eight.add(LANES);
            column
        }
    }
    #[inline(always)]
    unsafe fn scale(&self, stripe: usize, block: usize) -> L {
        let at = (stripe * self.1 + block) * LANES;
        // SAFETY: the caller guarantees stripe and block, so `at` is within.
        unsafe { S::lanes(self.0.scales.as_ptr().add(at)) }
    }
    #[inline(always)]
    unsafe fn offset(&self, stripe: usize, block: usize) -> L {
        let at = (stripe * self.1 + block) * LANES;
        // SAFETY: the caller guarantees stripe and block and that there are offsets, so `at` is within.
        unsafe { S::lanes(self.0.offsets.as_ptr().add(at)) }
    }
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        !self.0.offsets.is_empty()
    }
}
