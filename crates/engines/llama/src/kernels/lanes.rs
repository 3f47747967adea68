//! Sixteen numbers at once, for each kind of processor.
//!
//! Every kernel is written once over [`Lanes`]. A lane is one row of a matrix, one position
//! of a context or one column, never a part of a sum: sums run along the loop, so that all
//! processors, batch sizes and fallbacks round alike and give the same bits.
//!
//! # Safety
//!
//! A value proves that the processor has the instructions of its kind. Constructors are unsafe and
//! ask for that; arithmetic on values is safe. The way to the first value is [`super::Isa`], which
//! knows what the processor has.

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod x86;

use crate::layout::LANES;
use checkpoint::format::f16_to_f32;

pub(crate) trait Lanes: Copy {
    /// Sixteen words of eight 4-bit codes each. Only [`words`](Self::words) makes them.
    type Words: Copy;
    /// Whether there are registers for large tiles.
    const ROOMY: bool;

    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn splat(value: f32) -> Self;
    /// # Safety
    ///
    /// The processor has the instructions. Sixteen numbers can be read at `from`, which need not
    /// be aligned beyond one number.
    unsafe fn load(from: *const f32) -> Self;
    /// # Safety
    ///
    /// Sixteen numbers can be written at `to`, and no other thread uses them meanwhile.
    unsafe fn store(self, to: *mut f32);
    /// `self * by + plus`, rounded once.
    fn fma(self, by: Self, plus: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// To the nearest integer, halves to even.
    fn round(self) -> Self;
    /// 2 to the power of each lane: integers from -126 to 127.
    fn power_of_two(self) -> Self;
    /// # Safety
    ///
    /// As [`load`](Self::load), for bytes.
    unsafe fn from_i8(from: *const i8) -> Self;
    /// # Safety
    ///
    /// As [`load`](Self::load), for halves.
    unsafe fn from_f16(from: *const u16) -> Self;
    /// # Safety
    ///
    /// As [`load`](Self::load), for halves.
    unsafe fn from_bf16(from: *const u16) -> Self;
    /// # Safety
    ///
    /// As [`load`](Self::load), for words.
    unsafe fn words(from: *const u32) -> Self::Words;
    /// The lowest code of each word.
    fn lowest(words: Self::Words) -> Self;
    /// Moves the next code down.
    fn next(words: Self::Words) -> Self::Words;
}

/// Plain Rust: any processor, slowly.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; LANES]);

impl Portable {
    #[inline(always)]
    fn each(self, other: Self, with: impl Fn(f32, f32) -> f32) -> Self {
        Self(std::array::from_fn(|lane| {
            with(self.0[lane], other.0[lane])
        }))
    }
}

impl Lanes for Portable {
    type Words = [u32; LANES];
    const ROOMY: bool = false;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; LANES])
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees sixteen numbers at `from`.
        unsafe { Self(from.cast::<[f32; LANES]>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller guarantees sixteen numbers at `to`.
        unsafe { to.cast::<[f32; LANES]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    fn fma(self, by: Self, plus: Self) -> Self {
        Self(std::array::from_fn(|lane| {
            self.0[lane].mul_add(by.0[lane], plus.0[lane])
        }))
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.each(other, |one, other| one + other)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.each(other, |one, other| one - other)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.each(other, |one, other| one * other)
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.each(other, |one, other| one / other)
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // As the processor's instruction has it: the second, where they do not compare.
        self.each(other, |one, other| if one > other { one } else { other })
    }
    #[inline(always)]
    fn round(self) -> Self {
        Self(self.0.map(f32::round_ties_even))
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        Self(
            self.0
                .map(|value| f32::from_bits(((value as i32 + 127) as u32) << 23)),
        )
    }
    #[inline(always)]
    unsafe fn from_i8(from: *const i8) -> Self {
        // SAFETY: the caller guarantees sixteen bytes at `from`.
        let bytes = unsafe { from.cast::<[i8; LANES]>().read_unaligned() };
        Self(bytes.map(f32::from))
    }
    #[inline(always)]
    unsafe fn from_f16(from: *const u16) -> Self {
        // SAFETY: the caller guarantees sixteen halves at `from`.
        let halves = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        Self(halves.map(f16_to_f32))
    }
    #[inline(always)]
    unsafe fn from_bf16(from: *const u16) -> Self {
        // SAFETY: the caller guarantees sixteen halves at `from`.
        let halves = unsafe { from.cast::<[u16; LANES]>().read_unaligned() };
        Self(halves.map(|half| f32::from_bits(u32::from(half) << 16)))
    }
    #[inline(always)]
    unsafe fn words(from: *const u32) -> Self::Words {
        // SAFETY: the caller guarantees sixteen words at `from`.
        unsafe { from.cast::<[u32; LANES]>().read_unaligned() }
    }
    #[inline(always)]
    fn lowest(words: Self::Words) -> Self {
        Self(words.map(|word| (word & 15) as f32))
    }
    #[inline(always)]
    fn next(words: Self::Words) -> Self::Words {
        words.map(|word| word >> 4)
    }
}
