//! Rows of inputs times a matrix.
//!
//! One loop for all formats and batch sizes ([`tile`]): it goes along the columns and keeps a
//! sum for each output, block by block. A large batch first turns a pair of stripes into
//! plain numbers ([`Panel`]) and then runs the same loop over them, so that how many inputs
//! come together changes no bit of a result.

mod weights;

use std::ops::Range;

use self::weights::{Bf16Weights, ByRow, Eight, Four, Half, Plain, Single};
use super::lanes::Lanes;
use crate::layout::{BLOCK, FINE_BLOCK, LANES};
use crate::matrix::{Codes, Matrix};

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

/// Where a product reads and writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands {
    pub(crate) input: Inputs,
    pub(crate) output: Outputs,
}

// SAFETY: these are addresses only. Whoever uses them calls `any`, whose contract is that nobody
// else writes what is read or uses what is written.
unsafe impl Sync for Operands {}

impl Operands {
    /// The same, with outputs behind those of `stripes` stripes.
    ///
    /// # Safety
    ///
    /// A row of outputs has room for as many stripes.
    pub(crate) unsafe fn skip_stripes(self, stripes: usize) -> Self {
        let output = Outputs {
            // SAFETY: the caller guarantees the room.
            values: unsafe { self.output.values.add(stripes * LANES) },
            ..self.output
        };
        Self { output, ..self }
    }

    /// Without the first `done` inputs and their outputs.
    ///
    /// # Safety
    ///
    /// There are more inputs than `done`, each with room for its outputs.
    #[inline(always)]
    unsafe fn skip_inputs(self, done: usize) -> Self {
        let Self { input, output } = self;
        // SAFETY: the caller guarantees row `done` of inputs, their sums and outputs.
        unsafe {
            Self {
                input: Inputs {
                    values: input.values.add(done * input.stride),
                    sums: input.sums.add(done * input.sums_stride),
                    count: input.count - done,
                    ..input
                },
                output: Outputs {
                    values: output.values.add(done * output.stride),
                    ..output
                },
            }
        }
    }
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
    ///
    /// # Safety
    ///
    /// The processor has the instructions of `L`, and the matrix these columns.
    unsafe fn eight(&self, stripe: usize, eighth: usize) -> Self::Eight;
    /// The next column of them.
    ///
    /// # Safety
    ///
    /// The processor has the instructions of `L`; `eight` came from [`eight`](Self::eight) and has
    /// been asked fewer than eight times.
    unsafe fn column(eight: &mut Self::Eight) -> L;
    /// # Safety
    ///
    /// The processor has the instructions of `L`, and the matrix the stripe and the block.
    unsafe fn scale(&self, stripe: usize, block: usize) -> L;
    /// # Safety
    ///
    /// As [`scale`](Self::scale), and the format [has offsets](Self::has_offsets).
    unsafe fn offset(&self, stripe: usize, block: usize) -> L;
    fn has_offsets(&self) -> bool;
}

/// `M` inputs times `R` stripes, over `blocks` blocks of columns.
///
/// # Safety
///
/// As [`any`]: the matrix has `R` stripes from `stripe` on and `blocks` blocks of columns; there
/// are `M` inputs with all their columns and sums, and room for as many outputs.
#[inline(always)]
unsafe fn tile<L: Lanes, W: Weights<L>, const R: usize, const M: usize>(
    weights: &W,
    stripe: usize,
    blocks: usize,
    operands: Operands,
) {
    let Operands { input, output } = operands;
    // SAFETY: the caller guarantees the instructions and everything below `R`, `M` and
    // `blocks`. `at` stays below the eighths of all blocks, each `eight` is asked eight times.
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
///
/// # Safety
///
/// As [`any`], for the stripes of `stripes`.
#[inline(always)]
unsafe fn stripes<L: Lanes, W: Weights<L>>(
    weights: &W,
    stripes: Range<usize>,
    blocks: usize,
    operands: Operands,
) {
    let mut done = 0;
    while done < operands.input.count {
        // SAFETY: there are more than `done` inputs.
        let rest = unsafe { operands.skip_inputs(done) };
        let mut stripe = stripes.start;
        // Sums of a block and totals of all blocks must fit the 32 registers together.
        macro_rules! tiles {
            ($wide:literal, $m:literal) => {{
                // SAFETY: as the caller says of all inputs and stripes: the match below leaves at
                // least `$m` inputs in `rest`, the conditions here as many stripes as are taken.
                unsafe {
                    while stripes.end - stripe >= $wide {
                        tile::<L, W, $wide, $m>(weights, stripe, blocks, rest);
                        stripe += $wide;
                    }
                    while stripe < stripes.end {
                        tile::<L, W, 1, $m>(weights, stripe, blocks, rest);
                        stripe += 1;
                    }
                }
                done += $m;
            }};
        }
        // As many inputs at once as fit: those left over would read the weights again.
        match (rest.input.count, L::ROOMY) {
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
        // SAFETY: the caller guarantees the columns, and `numbers` has all of the stripes from
        // `first` on.
        unsafe { self.numbers.add((stripe + eighth * 8) * LANES) }
    }
    #[inline(always)]
    unsafe fn column(eight: &mut Self::Eight) -> L {
        // SAFETY: the caller asks for no more columns than `eight` stands before.
        unsafe {
            let column = L::load(*eight);
            *eight = eight.add(LANES);
            column
        }
    }
    #[inline(always)]
    unsafe fn scale(&self, stripe: usize, block: usize) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { self.weights.scale(stripe, block) }
    }
    #[inline(always)]
    unsafe fn offset(&self, stripe: usize, block: usize) -> L {
        // SAFETY: the caller's promise is the same.
        unsafe { self.weights.offset(stripe, block) }
    }
    #[inline(always)]
    fn has_offsets(&self) -> bool {
        self.weights.has_offsets()
    }
}

/// `panel` has room for [`PANEL_STRIPES`] stripes.
///
/// # Safety
///
/// As [`any`].
#[inline(always)]
unsafe fn product<L: Lanes, W: Weights<L>>(
    weights: &W,
    range: Range<usize>,
    blocks: usize,
    operands: Operands,
    panel: &mut [f32],
) {
    if operands.input.count < MANY {
        // SAFETY: the caller's promise is the same.
        unsafe { stripes(weights, range, blocks, operands) };
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
                // SAFETY: the matrix has the stripe and these columns. The panel has room for all
                // columns of the stripes, which was asserted, and `to` moves on by one of them.
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
        // SAFETY: as the caller says of `range`; the panel has all stripes that are asked for.
        unsafe { stripes::<L, _>(&panel, first..end, blocks, operands) };
    }
}

/// The product for whatever format a matrix has.
///
/// # Safety
///
/// The processor has the instructions of `L`. Inputs are
/// readable for all columns filled up to whole blocks, and their sums for all blocks; nobody writes
/// them meanwhile. Outputs are writable for the stripes of `range`, by nobody else.
#[inline(always)]
pub(crate) unsafe fn any<L: Lanes>(
    matrix: &Matrix,
    range: Range<usize>,
    operands: Operands,
    panel: &mut [f32],
) {
    let blocks = matrix.blocks();
    assert!(
        range.end <= matrix.stripes(),
        "a product of stripes that there are"
    );
    // SAFETY: the caller's promise is the same. Codes, scales and offsets have the lengths that
    // `Packer::new` gave them: whole blocks of columns for every stripe.
    unsafe {
        match &matrix.codes {
            Codes::F32(values) => {
                let weights = Plain::<Single, _>::new(values, blocks);
                product::<L, _>(&weights, range, blocks, operands, panel);
            }
            Codes::F16(values) => {
                let weights = Plain::<Half, _>::new(values, blocks);
                product::<L, _>(&weights, range, blocks, operands, panel);
            }
            Codes::Bf16(values) => {
                let weights = Plain::<Bf16Weights, _>::new(values, blocks);
                product::<L, _>(&weights, range, blocks, operands, panel);
            }
            Codes::ByRow(from) => {
                let weights = ByRow::new(from, blocks);
                product::<L, _>(&weights, range, blocks, operands, panel);
            }
            Codes::FourF16(from) => {
                product::<L, _>(&Four(from, blocks), range, blocks, operands, panel)
            }
            Codes::FourF32(from) => {
                product::<L, _>(&Four(from, blocks), range, blocks, operands, panel)
            }
            Codes::EightF16(from) => {
                product::<L, _>(
                    &Eight::<_, BLOCK>(from, blocks),
                    range,
                    blocks,
                    operands,
                    panel,
                );
            }
            Codes::EightF32(from) => {
                product::<L, _>(
                    &Eight::<_, BLOCK>(from, blocks),
                    range,
                    blocks,
                    operands,
                    panel,
                );
            }
            Codes::Fine(from) => {
                let weights = Eight::<_, FINE_BLOCK>(from, blocks * (BLOCK / FINE_BLOCK));
                product::<L, _>(&weights, range, blocks, operands, panel);
            }
        }
    }
}
