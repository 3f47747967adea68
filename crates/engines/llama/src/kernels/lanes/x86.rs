//! [`Lanes`] in the registers of x86-64: AVX-512, or AVX2 with FMA and F16C.
//!
//! Fields are private and constructors are unsafe, so that a value proves that the processor has
//! the instructions; what takes a value relies on that.

use std::arch::x86_64 as arch;

use super::Lanes;
use crate::layout::LANES;

/// One 512-bit register.
#[derive(Clone, Copy)]
pub(crate) struct Avx512(arch::__m512);

/// What a 4-bit code stands for: its place.
static CODES: [f32; LANES] = [
    0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.,
];

impl Lanes for Avx512 {
    type Words = arch::__m512i;
    const ROOMY: bool = true;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller guarantees the instructions.
        unsafe { Self(arch::_mm512_set1_ps(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees the instructions and sixteen numbers at `from`.
        unsafe { Self(arch::_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: `self` proves the instructions, and the caller guarantees sixteen
        // numbers at `to`.
        unsafe { arch::_mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    fn fma(self, by: Self, plus: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe { Self(arch::_mm512_fmadd_ps(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe { Self(arch::_mm512_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe { Self(arch::_mm512_sub_ps(self.0, other.0)) }
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe { Self(arch::_mm512_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe { Self(arch::_mm512_div_ps(self.0, other.0)) }
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe { Self(arch::_mm512_max_ps(self.0, other.0)) }
    }
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe { Self(arch::_mm512_roundscale_ps::<0>(self.0)) }
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let exponent = arch::_mm512_add_epi32(
                arch::_mm512_cvtps_epi32(self.0),
                arch::_mm512_set1_epi32(127),
            );
            Self(arch::_mm512_castsi512_ps(arch::_mm512_slli_epi32::<23>(
                exponent,
            )))
        }
    }
    #[inline(always)]
    unsafe fn from_i8(from: *const i8) -> Self {
        // SAFETY: the caller guarantees the instructions and sixteen bytes at `from`.
        unsafe {
            let bytes = arch::_mm_loadu_si128(from.cast());
            Self(arch::_mm512_cvtepi32_ps(arch::_mm512_cvtepi8_epi32(bytes)))
        }
    }
    #[inline(always)]
    unsafe fn from_f16(from: *const u16) -> Self {
        // SAFETY: the caller guarantees the instructions and sixteen halves at `from`.
        unsafe { Self(arch::_mm512_cvtph_ps(arch::_mm256_loadu_si256(from.cast()))) }
    }
    #[inline(always)]
    unsafe fn from_bf16(from: *const u16) -> Self {
        // SAFETY: the caller guarantees the instructions and sixteen halves at `from`.
        unsafe {
            let halves = arch::_mm512_cvtepu16_epi32(arch::_mm256_loadu_si256(from.cast()));
            Self(arch::_mm512_castsi512_ps(arch::_mm512_slli_epi32::<16>(
                halves,
            )))
        }
    }
    #[inline(always)]
    unsafe fn words(from: *const u32) -> Self::Words {
        // SAFETY: the caller guarantees the instructions and sixteen words at `from`.
        unsafe { arch::_mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    fn lowest(words: Self::Words) -> Self {
        // The permutation looks at the lowest four bits of each word only: a table for free.
        // SAFETY: only `Self::words` makes words, and its caller guaranteed the instructions.
        // `CODES` has sixteen numbers.
        unsafe {
            let codes = arch::_mm512_loadu_ps(CODES.as_ptr());
            Self(arch::_mm512_permutexvar_ps(words, codes))
        }
    }
    #[inline(always)]
    fn next(words: Self::Words) -> Self::Words {
        // SAFETY: only `Self::words` makes words, and its caller guaranteed the instructions.
        unsafe { arch::_mm512_srli_epi32::<4>(words) }
    }
}

/// Two 256-bit registers, with FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(arch::__m256, arch::__m256);

impl Avx2 {
    /// # Safety
    ///
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn from_ints(low: arch::__m256i, high: arch::__m256i) -> Self {
        // SAFETY: the caller guarantees the instructions.
        unsafe {
            Self(
                arch::_mm256_cvtepi32_ps(low),
                arch::_mm256_cvtepi32_ps(high),
            )
        }
    }
}

impl Lanes for Avx2 {
    type Words = (arch::__m256i, arch::__m256i);
    const ROOMY: bool = false;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: the caller guarantees the instructions.
        unsafe {
            let half = arch::_mm256_set1_ps(value);
            Self(half, half)
        }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees the instructions and sixteen numbers at `from`.
        unsafe {
            Self(
                arch::_mm256_loadu_ps(from),
                arch::_mm256_loadu_ps(from.add(8)),
            )
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: `self` proves the instructions, and the caller guarantees sixteen
        // numbers at `to`.
        unsafe {
            arch::_mm256_storeu_ps(to, self.0);
            arch::_mm256_storeu_ps(to.add(8), self.1);
        }
    }
    #[inline(always)]
    fn fma(self, by: Self, plus: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            Self(
                arch::_mm256_fmadd_ps(self.0, by.0, plus.0),
                arch::_mm256_fmadd_ps(self.1, by.1, plus.1),
            )
        }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            Self(
                arch::_mm256_add_ps(self.0, other.0),
                arch::_mm256_add_ps(self.1, other.1),
            )
        }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            Self(
                arch::_mm256_sub_ps(self.0, other.0),
                arch::_mm256_sub_ps(self.1, other.1),
            )
        }
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            Self(
                arch::_mm256_mul_ps(self.0, other.0),
                arch::_mm256_mul_ps(self.1, other.1),
            )
        }
    }
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            Self(
                arch::_mm256_div_ps(self.0, other.0),
                arch::_mm256_div_ps(self.1, other.1),
            )
        }
    }
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            Self(
                arch::_mm256_max_ps(self.0, other.0),
                arch::_mm256_max_ps(self.1, other.1),
            )
        }
    }
    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            Self(
                arch::_mm256_round_ps::<0>(self.0),
                arch::_mm256_round_ps::<0>(self.1),
            )
        }
    }
    #[inline(always)]
    fn power_of_two(self) -> Self {
        // SAFETY: `self` proves the instructions.
        unsafe {
            let power = |lanes| {
                let exponent = arch::_mm256_add_epi32(
                    arch::_mm256_cvtps_epi32(lanes),
                    arch::_mm256_set1_epi32(127),
                );
                arch::_mm256_castsi256_ps(arch::_mm256_slli_epi32::<23>(exponent))
            };
            Self(power(self.0), power(self.1))
        }
    }
    #[inline(always)]
    unsafe fn from_i8(from: *const i8) -> Self {
        // SAFETY: the caller guarantees the instructions and sixteen bytes at `from`.
        unsafe {
            let bytes = arch::_mm_loadu_si128(from.cast());
            Self::from_ints(
                arch::_mm256_cvtepi8_epi32(bytes),
                arch::_mm256_cvtepi8_epi32(arch::_mm_srli_si128::<8>(bytes)),
            )
        }
    }
    #[inline(always)]
    unsafe fn from_f16(from: *const u16) -> Self {
        // SAFETY: the caller guarantees the instructions and sixteen halves at `from`.
        unsafe {
            Self(
                arch::_mm256_cvtph_ps(arch::_mm_loadu_si128(from.cast())),
                arch::_mm256_cvtph_ps(arch::_mm_loadu_si128(from.add(8).cast())),
            )
        }
    }
    #[inline(always)]
    unsafe fn from_bf16(from: *const u16) -> Self {
        // SAFETY: the caller guarantees the instructions and sixteen halves at `from`.
        unsafe {
            let half = |from: *const u16| {
                let halves = arch::_mm256_cvtepu16_epi32(arch::_mm_loadu_si128(from.cast()));
                arch::_mm256_castsi256_ps(arch::_mm256_slli_epi32::<16>(halves))
            };
            Self(half(from), half(from.add(8)))
        }
    }
    #[inline(always)]
    unsafe fn words(from: *const u32) -> Self::Words {
        // SAFETY: the caller guarantees the instructions and sixteen words at `from`.
        unsafe {
            (
                arch::_mm256_loadu_si256(from.cast()),
                arch::_mm256_loadu_si256(from.add(8).cast()),
            )
        }
    }
    #[inline(always)]
    fn lowest(words: Self::Words) -> Self {
        // SAFETY: only `Self::words` makes words, and its caller guaranteed the instructions.
        unsafe {
            let mask = arch::_mm256_set1_epi32(15);
            Self::from_ints(
                arch::_mm256_and_si256(words.0, mask),
                arch::_mm256_and_si256(words.1, mask),
            )
        }
    }
    #[inline(always)]
    fn next(words: Self::Words) -> Self::Words {
        // SAFETY: only `Self::words` makes words, and its caller guaranteed the instructions.
        unsafe {
            (
                arch::_mm256_srli_epi32::<4>(words.0),
                arch::_mm256_srli_epi32::<4>(words.1),
            )
        }
    }
}
