//! Arithmetic, and the choice of instructions for it.
//!
//! Kernels are written once over [`lanes::Lanes`] and compiled for each kind of processor;
//! [`Isa`] picks at run time. All kinds give the same bits.

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
pub(crate) mod tests;

use std::ops::Range;

use self::attention::{Cache, Query};
pub(crate) use self::lanes::LANES;
use self::lanes::Portable;
#[cfg(target_arch = "x86_64")]
use self::lanes::x86::{Avx2, Avx512};
use self::product::{Inputs, Outputs};
use crate::matrix::Matrix;

/// A kind of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    Avx512,
    Avx2,
    Portable,
}

impl Isa {
    /// The best that this processor has.
    pub fn detect() -> Self {
        Self::available().first().copied().unwrap_or(Self::Portable)
    }

    /// All that this processor has, the best first.
    pub fn available() -> Vec<Self> {
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                found.push(Self::Avx512);
            }
            if avx2 {
                found.push(Self::Avx2);
            }
        }
        found.push(Self::Portable);
        found
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Avx512 => "AVX-512",
            Self::Avx2 => "AVX2",
            Self::Portable => "portable",
        }
    }
}

/// Writes the three copies of a kernel and the choice between them.
macro_rules! kernels {
    ($(
        $(#[$about:meta])*
        fn $name:ident = $module:ident::$kernel:ident, ($($argument:ident: $type:ty),*) $(-> $result:ty)?;
    )*) => {
        impl Isa {
            $(
                $(#[$about])*
                pub(crate) unsafe fn $name(self, $($argument: $type),*) $(-> $result)? {
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx512f,avx512bw,avx2,fma,f16c")]
                    unsafe fn avx512($($argument: $type),*) $(-> $result)? {
                        #[allow(unused_unsafe, reason = "some kernels are safe")]
                        unsafe { $module::$kernel::<Avx512>($($argument),*) }
                    }
                    #[cfg(target_arch = "x86_64")]
                    #[target_feature(enable = "avx2,fma,f16c")]
                    unsafe fn avx2($($argument: $type),*) $(-> $result)? {
                        #[allow(unused_unsafe, reason = "some kernels are safe")]
                        unsafe { $module::$kernel::<Avx2>($($argument),*) }
                    }
                    match self {
                        #[cfg(target_arch = "x86_64")]
                        Self::Avx512 => unsafe { avx512($($argument),*) },
                        #[cfg(target_arch = "x86_64")]
                        Self::Avx2 => unsafe { avx2($($argument),*) },
                        #[cfg(not(target_arch = "x86_64"))]
                        Self::Avx512 | Self::Avx2 => unreachable!("never detected"),
                        #[allow(unused_unsafe, reason = "some kernels are safe")]
                        Self::Portable => unsafe { $module::$kernel::<Portable>($($argument),*) },
                    }
                }
            )*
        }
    };
}

kernels! {
    /// Inputs times the stripes of `range`.
    fn product = product::any, (matrix: &Matrix, range: Range<usize>, ends: (Inputs, Outputs), panel: &mut [f32]);
    /// See [`attention::attend`].
    fn attend = attention::attend, (cache: &Cache, place: (usize, &[u32]), queries: &[Query], scores: (&mut [f32], usize));
    fn rms_norm = row::rms_norm, (row: &[f32], weight: &[f32], width: (usize, f32), to: &mut [f32]);
    fn add = row::add, (row: &[f32], to: &mut [f32]);
    fn gated = row::gated, (gate: &mut [f32], up: &[f32]);
    fn block_sums = row::block_sums, (row: &[f32], sums: &mut [f32]);
}
