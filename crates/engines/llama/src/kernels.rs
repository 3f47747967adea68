//! Arithmetic, and the choice of instructions for it.
//!
//! Kernels are written once over [`lanes::Lanes`] and compiled for each kind of processor;
//! [`Isa`] picks at run time. All kinds give the same bits. Miri interprets the portable kind only.

#![expect(
    unsafe_code,
    reason = "vector instructions and buffers that threads share by rows"
)]

pub(crate) mod attention;
mod lanes;
mod math;
pub(crate) mod product;
mod row;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::attention::{CachedHead, Query};
use self::lanes::Portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
use self::lanes::x86::{Avx2, Avx512};
use self::product::Operands;
pub(crate) use self::row::Norm;
use crate::matrix::Matrix;

/// A kind of processor, and the proof that this one is of the kind: only [`Isa::available`] makes
/// any other than the portable one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx512,
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    Avx2,
    Portable,
}

impl Isa {
    /// Plain Rust: what every processor has.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The best that this processor has.
    pub fn detect() -> Self {
        Self::available().first().copied().unwrap_or(Self::PORTABLE)
    }

    /// All that this processor has, the best first.
    pub fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                found.push(Self(Kind::Avx512));
            }
            if avx2 {
                found.push(Self(Kind::Avx2));
            }
        }
        found.push(Self::PORTABLE);
        found
    }

    pub fn as_str(self) -> &'static str {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kind::Avx512 => "AVX-512",
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Kind::Avx2 => "AVX2",
            Kind::Portable => "portable",
        }
    }
}

/// Writes the three copies of a kernel and the choice between them. Kernels ask for the
/// instructions of their lanes and some for more; those are `unsafe` here too.
macro_rules! kernels {
    ($(
        $(#[$about:meta])*
        $([$safety:tt])? fn $name:ident = $module:ident::$kernel:ident, ($($argument:ident: $type:ty),*);
    )*) => {
        impl Isa {
            $(
                $(#[$about])*
                pub(crate) $($safety)? fn $name(self, $($argument: $type),*) {
                    /// # Safety
                    ///
                    /// The processor has the features, and what the kernel asks for beside them.
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    #[target_feature(enable = "avx512f,avx512bw,avx2,fma,f16c")]
                    unsafe fn avx512($($argument: $type),*) {
                        // SAFETY: the features of `Avx512` are enabled; the rest is the caller's.
                        unsafe { $module::$kernel::<Avx512>($($argument),*) }
                    }
                    /// # Safety
                    ///
                    /// As for `avx512`.
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    #[target_feature(enable = "avx2,fma,f16c")]
                    unsafe fn avx2($($argument: $type),*) {
                        // SAFETY: the features of `Avx2` are enabled; the rest is the caller's.
                        unsafe { $module::$kernel::<Avx2>($($argument),*) }
                    }
                    match self.0 {
                        // SAFETY: `available` made the value after it had found all features that
                        // `avx512` enables; the rest is the caller's.
                        #[cfg(all(target_arch = "x86_64", not(miri)))]
                        Kind::Avx512 => unsafe { avx512($($argument),*) },
                        // SAFETY: as above, for `avx2`.
                        #[cfg(all(target_arch = "x86_64", not(miri)))]
                        Kind::Avx2 => unsafe { avx2($($argument),*) },
                        // SAFETY: plain Rust needs no features; the rest is the caller's.
                        Kind::Portable => unsafe { $module::$kernel::<Portable>($($argument),*) },
                    }
                }
            )*
        }
    };
}

kernels! {
    /// Inputs times the stripes of `range`.
    ///
    /// # Safety
    ///
    /// As [`product::any`], but for the instructions.
    [unsafe] fn product = product::any, (matrix: &Matrix, range: Range<usize>, operands: Operands, panel: &mut [f32]);
    /// See [`attention::attend`].
    ///
    /// # Safety
    ///
    /// As there, but for the instructions.
    [unsafe] fn attend = attention::attend, (place: CachedHead<'_>, queries: &[Query], scores: &mut [f32], stride: usize);
    fn rms_norm = row::rms_norm, (norm: Norm<'_>, row: &[f32], to: &mut [f32]);
    fn add = row::add, (row: &[f32], to: &mut [f32]);
    fn gated = row::gated, (gate: &mut [f32], up: &[f32]);
    fn block_sums = row::block_sums, (row: &[f32], sums: &mut [f32]);
}
