//! What happens to one row of activations: norms, activations, sums.
//!
//! Lengths are whole multiples of [`LANES`]; rows are filled up with zeros. Every function checks
//! its lengths, so all that a caller must guarantee is the processor.

use super::lanes::Lanes;
use super::math;
use crate::layout::{BLOCK, LANES};

/// How a row is normed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Norm<'a> {
    /// As long as the row.
    pub(crate) weight: &'a [f32],
    /// Numbers of the row without filling.
    pub(crate) width: usize,
    pub(crate) epsilon: f32,
}

/// The sum of sixteen lanes, always in the same order.
#[inline(always)]
fn sum_of<L: Lanes>(lanes: L) -> f32 {
    let mut values = [0.0; LANES];
    // SAFETY: `values` has sixteen numbers.
    unsafe { lanes.store(values.as_mut_ptr()) };
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            values[lane] += values[lane + width];
        }
        width /= 2;
    }
    values[0]
}

/// Where vectors begin in a row: the last has [`LANES`] numbers too if `length` is whole lanes.
#[inline(always)]
fn vectors(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by(LANES)
}

/// `row` times its scale to a mean square of one, times the norm's weight.
///
/// # Safety
///
/// The processor has the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn rms_norm<L: Lanes>(norm: Norm<'_>, row: &[f32], to: &mut [f32]) {
    let weight = norm.weight;
    assert!(row.len().is_multiple_of(LANES) && weight.len() == row.len() && to.len() == row.len());
    // SAFETY: the caller guarantees the instructions. All three slices are equally long and whole
    // lanes, so each has sixteen numbers from every `at` on.
    unsafe {
        let mut squares = L::splat(0.0);
        for at in vectors(row.len()) {
            let part = L::load(row.as_ptr().add(at));
            squares = part.fma(part, squares);
        }
        let mean = sum_of(squares) / norm.width as f32;
        let scale = L::splat(1.0 / (mean + norm.epsilon).sqrt());
        for at in vectors(row.len()) {
            let part = L::load(row.as_ptr().add(at)).mul(scale);
            part.mul(L::load(weight.as_ptr().add(at)))
                .store(to.as_mut_ptr().add(at));
        }
    }
}

/// `to += row`.
///
/// # Safety
///
/// The processor has the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn add<L: Lanes>(row: &[f32], to: &mut [f32]) {
    assert!(row.len().is_multiple_of(LANES) && to.len() == row.len());
    for at in vectors(row.len()) {
        // SAFETY: the caller guarantees the instructions; both slices are equally long and whole
        // lanes, so each has sixteen numbers from `at` on.
        unsafe {
            let sum = L::load(to.as_ptr().add(at)).add(L::load(row.as_ptr().add(at)));
            sum.store(to.as_mut_ptr().add(at));
        }
    }
}

/// `gate = silu(gate) * up`.
///
/// # Safety
///
/// The processor has the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn gated<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    assert!(gate.len().is_multiple_of(LANES) && up.len() == gate.len());
    for at in vectors(gate.len()) {
        // SAFETY: the caller guarantees the instructions; both slices are equally long and whole
        // lanes, so each has sixteen numbers from `at` on.
        unsafe {
            let active = math::silu(L::load(gate.as_ptr().add(at)));
            active
                .mul(L::load(up.as_ptr().add(at)))
                .store(gate.as_mut_ptr().add(at));
        }
    }
}

/// The sum of each block of `row`.
///
/// # Safety
///
/// The processor has the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn block_sums<L: Lanes>(row: &[f32], sums: &mut [f32]) {
    assert!(row.len().is_multiple_of(BLOCK) && sums.len() == row.len() / BLOCK);
    for (block, sum) in row.chunks_exact(BLOCK).zip(sums) {
        // SAFETY: the caller guarantees the instructions; a block is two vectors.
        let (low, high) = unsafe { (L::load(block.as_ptr()), L::load(block.as_ptr().add(LANES))) };
        *sum = sum_of(low.add(high));
    }
}

/// Turns scores into weights whose sum is returned; the weights are not divided by it. Only the
/// first `count` of the row count; the rest up to whole lanes becomes zero.
///
/// # Safety
///
/// The processor has the instructions of `L`.
#[inline(always)]
pub(crate) unsafe fn softmax<L: Lanes>(row: &mut [f32], count: usize, scale: f32) -> f32 {
    assert!(row.len().is_multiple_of(LANES) && count > 0 && count <= row.len());
    let length = count.next_multiple_of(LANES);
    row[count..length].fill(f32::NEG_INFINITY);
    // SAFETY: the caller guarantees the instructions. `length` is whole lanes and no longer than
    // the row, which is whole lanes too, so there are sixteen numbers from every `at` on.
    unsafe {
        let mut largest = L::splat(f32::NEG_INFINITY);
        for at in vectors(length) {
            largest = largest.max(L::load(row.as_ptr().add(at)));
        }
        let mut values = [0.0; LANES];
        largest.store(values.as_mut_ptr());
        let largest = L::splat(values.into_iter().fold(f32::NEG_INFINITY, f32::max));
        let scale = L::splat(scale);
        for at in vectors(length) {
            let score = L::load(row.as_ptr().add(at)).sub(largest).mul(scale);
            math::exp(score).store(row.as_mut_ptr().add(at));
        }
        // What was filled in is not quite nothing.
        row[count..length].fill(0.0);
        let mut sum = L::splat(0.0);
        for at in vectors(length) {
            sum = sum.add(L::load(row.as_ptr().add(at)));
        }
        sum_of(sum)
    }
}
