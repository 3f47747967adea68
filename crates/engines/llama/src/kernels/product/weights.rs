//! How the loop of [`super::tile`] reads each kind of matrix.

use std::marker::PhantomData;

use super::Weights;
use crate::kernels::lanes::{LANES, Lanes};
use crate::matrix::{BLOCK, Quantised};

/// Numbers of one kind become lanes.
pub(super) trait Stored<L: Lanes> {
    type Raw: Copy;
    unsafe fn load(from: *const Self::Raw) -> L;
}

pub(super) struct Single;
pub(super) struct Half;
pub(super) struct Brain;

impl<L: Lanes> Stored<L> for Single {
    type Raw = f32;
    #[inline(always)]
    unsafe fn load(from: *const f32) -> L {
        unsafe { L::load(from) }
    }
}

impl<L: Lanes> Stored<L> for Half {
    type Raw = u16;
    #[inline(always)]
    unsafe fn load(from: *const u16) -> L {
        unsafe { L::from_f16(from) }
    }
}

impl<L: Lanes> Stored<L> for Brain {
    type Raw = u16;
    #[inline(always)]
    unsafe fn load(from: *const u16) -> L {
        unsafe { L::from_bf16(from) }
    }
}

/// Numbers without scales.
pub(super) struct Plain<'a, K, T>(pub(super) &'a [T], pub(super) usize, PhantomData<K>);

impl<'a, K, T> Plain<'a, K, T> {
    pub(super) fn new(values: &'a [T], blocks: usize) -> Self {
        Self(values, blocks, PhantomData)
    }
}

impl<L: Lanes, K: Stored<L, Raw = T>, T: Copy> Weights<L> for Plain<'_, K, T> {
    const SHARED: usize = 0;
    const PLAIN: bool = true;
    type Eight = *const T;

    #[inline(always)]
    unsafe fn eight(&self, stripe: usize, eighth: usize) -> Self::Eight {
        unsafe {
            self.0
                .as_ptr()
                .add((stripe * self.1 * BLOCK + eighth * 8) * LANES)
        }
    }
    #[inline(always)]
    unsafe fn column(eight: &mut Self::Eight) -> L {
        unsafe {
            let column = K::load(*eight);
            *eight = eight.add(LANES);
            column
        }
    }
    #[inline(always)]
    unsafe fn scale(&self, _: usize, _: usize) -> L {
        L::splat(1.0)
    }
    #[inline(always)]
    unsafe fn offset(&self, _: usize, _: usize) -> L {
        L::splat(0.0)
    }
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        false
    }
}

/// Scales of either width.
pub(super) trait Scale: Copy {
    unsafe fn lanes<L: Lanes>(from: *const Self) -> L;
}

impl Scale for f32 {
    #[inline(always)]
    unsafe fn lanes<L: Lanes>(from: *const Self) -> L {
        unsafe { L::load(from) }
    }
}

impl Scale for u16 {
    #[inline(always)]
    unsafe fn lanes<L: Lanes>(from: *const Self) -> L {
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
        unsafe {
            S::lanes(
                self.0
                    .scales
                    .as_ptr()
                    .add((stripe * self.1 + block) * LANES),
            )
        }
    }
    #[inline(always)]
    unsafe fn offset(&self, stripe: usize, block: usize) -> L {
        unsafe {
            S::lanes(
                self.0
                    .offsets
                    .as_ptr()
                    .add((stripe * self.1 + block) * LANES),
            )
        }
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
        unsafe { self.0.codes.as_ptr().add(at) }
    }
    #[inline(always)]
    unsafe fn column(eight: &mut Self::Eight) -> L {
        unsafe {
            let column = L::from_i8(*eight);
            *eight = eight.add(LANES);
            column
        }
    }
    #[inline(always)]
    unsafe fn scale(&self, stripe: usize, block: usize) -> L {
        unsafe {
            S::lanes(
                self.0
                    .scales
                    .as_ptr()
                    .add((stripe * self.1 + block) * LANES),
            )
        }
    }
    #[inline(always)]
    unsafe fn offset(&self, stripe: usize, block: usize) -> L {
        unsafe {
            S::lanes(
                self.0
                    .offsets
                    .as_ptr()
                    .add((stripe * self.1 + block) * LANES),
            )
        }
    }
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        !self.0.offsets.is_empty()
    }
}
