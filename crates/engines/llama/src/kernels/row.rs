//! What happens to one row of activations: norms, activations, sums.
//!
//! Lengths are whole multiples of [`LANES`]; rows are filled up with zeros.

use super::lanes::{LANES, Lanes};
use super::math;
use crate::matrix::BLOCK;

/// The sum of sixteen lanes, always in the same order.
#[inline(always)]
fn sum_of<L: Lanes>(lanes: L) -> f32 {
    let mut values = [0.0; LANES];
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

#[inline(always)]
fn vectors(length: usize) -> impl Iterator<Item = usize> {
    (0..length).step_by(LANES)
}

/// `row` times its scale to a mean square of one, times `weight`. `width` is without filling.
#[inline(always)]
pub(crate) fn rms_norm<L: Lanes>(
    row: &[f32],
    weight: &[f32],
    (width, epsilon): (usize, f32),
    to: &mut [f32],
) {
    assert!(row.len().is_multiple_of(LANES) && weight.len() == row.len() && to.len() == row.len());
    let mut squares = L::splat(0.0);
    for at in vectors(row.len()) {
        let part = unsafe { L::load(row.as_ptr().add(at)) };
        squares = part.fma(part, squares);
    }
    let mean = sum_of(squares) / width as f32;
    let scale = L::splat(1.0 / (mean + epsilon).sqrt());
    for at in vectors(row.len()) {
        unsafe {
            let part = L::load(row.as_ptr().add(at)).mul(scale);
            part.mul(L::load(weight.as_ptr().add(at)))
                .store(to.as_mut_ptr().add(at));
        }
    }
}

/// `to += row`.
#[inline(always)]
pub(crate) fn add<L: Lanes>(row: &[f32], to: &mut [f32]) {
    assert!(row.len().is_multiple_of(LANES) && to.len() == row.len());
    for at in vectors(row.len()) {
        unsafe {
            let sum = L::load(to.as_ptr().add(at)).add(L::load(row.as_ptr().add(at)));
            sum.store(to.as_mut_ptr().add(at));
        }
    }
}

/// `gate = silu(gate) * up`.
#[inline(always)]
pub(crate) fn gated<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    assert!(gate.len().is_multiple_of(LANES) && up.len() == gate.len());
    for at in vectors(gate.len()) {
        unsafe {
            let active = math::silu(L::load(gate.as_ptr().add(at)));
            active
                .mul(L::load(up.as_ptr().add(at)))
                .store(gate.as_mut_ptr().add(at));
        }
    }
}

/// The sum of each block of `row`.
#[inline(always)]
pub(crate) fn block_sums<L: Lanes>(row: &[f32], sums: &mut [f32]) {
    assert!(row.len().is_multiple_of(BLOCK) && sums.len() == row.len() / BLOCK);
    for (block, sum) in row.chunks_exact(BLOCK).zip(sums) {
        let (low, high) = unsafe { (L::load(block.as_ptr()), L::load(block.as_ptr().add(LANES))) };
        *sum = sum_of(low.add(high));
    }
}

/// Turns scores into weights whose sum is returned; the weights are not divided by it. Only the
/// first `count` of the row count; the rest up to whole lanes becomes zero.
#[inline(always)]
pub(crate) fn softmax<L: Lanes>(row: &mut [f32], count: usize, scale: f32) -> f32 {
    assert!(row.len().is_multiple_of(LANES) && count > 0 && count <= row.len());
    let length = count.next_multiple_of(LANES);
    row[count..length].fill(f32::NEG_INFINITY);
    let mut largest = L::splat(f32::NEG_INFINITY);
    for at in vectors(length) {
        largest = largest.max(unsafe { L::load(row.as_ptr().add(at)) });
    }
    let mut values = [0.0; LANES];
    unsafe { largest.store(values.as_mut_ptr()) };
    let largest = L::splat(values.into_iter().fold(f32::NEG_INFINITY, f32::max));
    let scale = L::splat(scale);
    for at in vectors(length) {
        unsafe {
            let score = L::load(row.as_ptr().add(at)).sub(largest).mul(scale);
            math::exp(score).store(row.as_mut_ptr().add(at));
        }
    }
    // What was filled in is not quite nothing.
    row[count..length].fill(0.0);
    let mut sum = L::splat(0.0);
    for at in vectors(length) {
        sum = sum.add(unsafe { L::load(row.as_ptr().add(at)) });
    }
    sum_of(sum)
}
