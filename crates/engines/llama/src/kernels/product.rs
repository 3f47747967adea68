//! Rows of inputs times a matrix.
//!
//! One loop for all formats and batch sizes ([`tile`]): it goes along the columns and keeps a
//! sum for each output, block by block. A large batch first turns a pair of stripes into
//! plain numbers ([`Panel`]) and then runs the same loop over them, so that how many inputs
//! come together changes no bit of a result.

mod weights;

use std::ops::Range;

use self::weights::{Brain, Eight, Four, Half, Plain, Single};
use super::lanes::{LANES, Lanes};
use crate::matrix::{BLOCK, Codes, FINE_BLOCK, Matrix};

/// Rows of numbers, each followed by the next at a distance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inputs {
    pub(crate) values: *const f32,
    pub(crate) stride: usize,
    /// Of each [`BLOCK`] of values.
    pub(crate) sums: *const f32,
    pub(crate) sums_stride: usize,
    pub(crate) count: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Outputs {
    pub(crate) values: *mut f32,
    /// A multiple of [`LANES`] that covers all rows of the matrix.
    pub(crate) stride: usize,
}

/// Inputs from which decoding a stripe first is cheaper than decoding it for each few.
const MANY: usize = 9;
/// Stripes that are decoded together.
pub(crate) const PANEL_STRIPES: usize = 2;

/// A format as the loop sees it: eight columns of a stripe at a time.
pub(crate) trait Weights<L: Lanes> {
    /// Columns that share a scale; 0 if numbers are stored as they are.
    const SHARED: usize;
    /// Whether a column costs no more than to load it.
    const PLAIN: bool;
    type Eight: Copy;
    /// Columns `8 * eighth ..` of a stripe.
    unsafe fn eight(&self, stripe: usize, eighth: usize) -> Self::Eight;
    /// The next column of them.
    unsafe fn column(eight: &mut Self::Eight) -> L;
    unsafe fn scale(&self, stripe: usize, block: usize) -> L;
    unsafe fn offset(&self, stripe: usize, block: usize) -> L;
    fn has_offsets(&self) -> bool;
}

/// `M` inputs times `R` stripes, over `blocks` blocks of columns.
#[inline(always)]
unsafe fn tile<L: Lanes, W: Weights<L>, const R: usize, const M: usize>(
    weights: &W,
    stripe: usize,
    blocks: usize,
    input: Inputs,
    output: Outputs,
) {
    unsafe {
        let shared = if W::SHARED == 0 { BLOCK } else { W::SHARED };
        let mut totals = [[L::splat(0.0); M]; R];
        let mut sums = [[L::splat(0.0); M]; R];
        for block in 0..blocks * (BLOCK / shared) {
            for eighth in 0..shared / 8 {
                let at = block * (shared / 8) + eighth;
                let mut eight: [W::Eight; R] =
                    std::array::from_fn(|row| weights.eight(stripe + row, at));
                for column in 0..8 {
                    let weight: [L; R] = std::array::from_fn(|row| W::column(&mut eight[row]));
                    let values = input.values.add(at * 8 + column);
                    for m in 0..M {
                        let value = L::splat(*values.add(m * input.stride));
                        for (sums, weight) in sums.iter_mut().zip(weight) {
                            sums[m] = weight.fma(value, sums[m]);
                        }
                    }
                }
            }
            if W::SHARED > 0 {
                for (row, (totals, sums)) in totals.iter_mut().zip(&mut sums).enumerate() {
                    let scale = weights.scale(stripe + row, block);
                    for (total, sum) in totals.iter_mut().zip(sums) {
                        *total = scale.fma(*sum, *total);
                        *sum = L::splat(0.0);
                    }
                    if weights.has_offsets() {
                        let offset = weights.offset(stripe + row, block);
                        for (m, total) in totals.iter_mut().enumerate() {
                            let sum = L::splat(*input.sums.add(m * input.sums_stride + block));
                            *total = offset.fma(sum, *total);
                        }
                    }
                }
            }
        }
        let results = if W::SHARED > 0 { &totals } else { &sums };
        for (row, results) in results.iter().enumerate() {
            for (m, result) in results.iter().enumerate() {
                result.store(
                    output
                        .values
                        .add(m * output.stride + (stripe + row) * LANES),
                );
            }
        }
    }
}

/// All inputs times some stripes.
#[inline(always)]
unsafe fn stripes<L: Lanes, W: Weights<L>>(
    weights: &W,
    stripes: Range<usize>,
    blocks: usize,
    input: Inputs,
    output: Outputs,
) {
    let mut done = 0;
    let from = |done: usize| unsafe {
        (
            Inputs {
                values: input.values.add(done * input.stride),
                sums: input.sums.add(done * input.sums_stride),
                ..input
            },
            Outputs {
                values: output.values.add(done * output.stride),
                ..output
            },
        )
    };
    while done < input.count {
        let (input, output) = from(done);
        let mut stripe = stripes.start;
        // Sums of a block and totals of all blocks must fit the 32 registers together.
        macro_rules! tiles {
            ($wide:literal, $m:literal) => {{
                while stripes.end - stripe >= $wide {
                    unsafe { tile::<L, W, $wide, $m>(weights, stripe, blocks, input, output) };
                    stripe += $wide;
                }
                while stripe < stripes.end {
                    unsafe { tile::<L, W, 1, $m>(weights, stripe, blocks, input, output) };
                    stripe += 1;
                }
                done += $m;
            }};
        }
        // As many inputs at once as fit: those left over would read the weights again.
        match (input.count - done, L::ROOMY) {
            (6.., true) if W::PLAIN => tiles!(2, 6),
            (8.., true) => tiles!(1, 8),
            (7, true) => tiles!(1, 7),
            (6, true) => tiles!(2, 6),
            (5, true) => tiles!(2, 5),
            (4, true) => tiles!(2, 4),
            (3, true) => tiles!(2, 3),
            (2, true) => tiles!(4, 2),
            (_, true) => tiles!(4, 1),
            (4.., false) => tiles!(1, 4),
            (_, false) => tiles!(2, 1),
        }
    }
}

/// A pair of stripes as plain numbers, with the scales of the format that they came from.
struct Panel<'a, W> {
    weights: &'a W,
    numbers: *const f32,
    first: usize,
    columns: usize,
}

impl<L: Lanes, W: Weights<L>> Weights<L> for Panel<'_, W> {
    const SHARED: usize = W::SHARED;
    const PLAIN: bool = true;
    type Eight = *const f32;

    #[inline(always)]
    unsafe fn eight(&self, stripe: usize, eighth: usize) -> Self::Eight {
        let stripe = (stripe - self.first) * self.columns;
        unsafe { self.numbers.add((stripe + eighth * 8) * LANES) }
    }
    #[inline(always)]
    unsafe fn column(eight: &mut Self::Eight) -> L {
        unsafe {
            let column = L::load(*eight);
            *eight = eight.add(LANES);
            column
        }
    }
    #[inline(always)]
    unsafe fn scale(&self, stripe: usize, block: usize) -> L {
        unsafe { self.weights.scale(stripe, block) }
    }
    #[inline(always)]
    unsafe fn offset(&self, stripe: usize, block: usize) -> L {
        unsafe { self.weights.offset(stripe, block) }
    }
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        self.weights.has_offsets()
    }
}

/// `panel` has room for [`PANEL_STRIPES`] stripes.
#[inline(always)]
unsafe fn product<L: Lanes, W: Weights<L>>(
    weights: &W,
    range: Range<usize>,
    blocks: usize,
    (input, output): (Inputs, Outputs),
    panel: &mut [f32],
) {
    if input.count < MANY {
        unsafe { stripes(weights, range, blocks, input, output) };
        return;
    }
    let columns = blocks * BLOCK;
    for first in range.clone().step_by(PANEL_STRIPES) {
        let end = (first + PANEL_STRIPES).min(range.end);
        assert!(
            panel.len() >= (end - first) * columns * LANES,
            "room for a panel"
        );
        let mut to = panel.as_mut_ptr();
        for stripe in first..end {
            for eighth in 0..columns / 8 {
                unsafe {
                    let mut eight = weights.eight(stripe, eighth);
                    for _ in 0..8 {
                        W::column(&mut eight).store(to);
                        to = to.add(LANES);
                    }
                }
            }
        }
        let panel = Panel {
            weights,
            numbers: panel.as_ptr(),
            first,
            columns,
        };
        unsafe { stripes::<L, _>(&panel, first..end, blocks, input, output) };
    }
}

/// The product for whatever format a matrix has.
///
/// # Safety
///
/// The processor has the instructions of `L`. Inputs are readable for all columns filled up to
/// whole blocks, outputs writable for the stripes of `range`, by nobody else.
#[inline(always)]
pub(crate) unsafe fn any<L: Lanes>(
    matrix: &Matrix,
    range: Range<usize>,
    ends: (Inputs, Outputs),
    panel: &mut [f32],
) {
    let blocks = matrix.blocks();
    unsafe {
        match &matrix.codes {
            Codes::F32(values) => {
                let weights = Plain::<Single, _>::new(values, blocks);
                product::<L, _>(&weights, range, blocks, ends, panel);
            }
            Codes::F16(values) => {
                let weights = Plain::<Half, _>::new(values, blocks);
                product::<L, _>(&weights, range, blocks, ends, panel);
            }
            Codes::Bf16(values) => {
                let weights = Plain::<Brain, _>::new(values, blocks);
                product::<L, _>(&weights, range, blocks, ends, panel);
            }
            Codes::FourF16(from) => {
                product::<L, _>(&Four(from, blocks), range, blocks, ends, panel)
            }
            Codes::FourF32(from) => {
                product::<L, _>(&Four(from, blocks), range, blocks, ends, panel)
            }
            Codes::EightF16(from) => {
                product::<L, _>(&Eight::<_, BLOCK>(from, blocks), range, blocks, ends, panel);
            }
            Codes::EightF32(from) => {
                product::<L, _>(&Eight::<_, BLOCK>(from, blocks), range, blocks, ends, panel);
            }
            Codes::Fine(from) => {
                let weights = Eight::<_, FINE_BLOCK>(from, blocks * 2);
                product::<L, _>(&weights, range, blocks, ends, panel);
            }
        }
    }
}
