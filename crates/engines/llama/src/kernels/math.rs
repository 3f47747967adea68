//! Functions of single numbers, sixteen at a time.

use super::lanes::Lanes;

/// e to the power of each lane. Off by less than two units in the last place; 0 far below
/// -87, and never infinite: callers subtract the largest first, or want a limit.
#[inline(always)]
pub(crate) fn exp<L: Lanes>(value: L) -> L {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    // ln 2 in two parts, the first with few bits, so that the remainder is exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Of e^r on -ln2/2 ..= ln2/2, after 1 + r.
    const TERMS: [f32; 6] = [
        1.987_569_2e-4,
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_6e-1,
        0.5,
    ];
    // SAFETY: `value` proves the instructions.
    unsafe {
        let bounded = L::splat(0.0).sub(L::splat(0.0).sub(value).max(L::splat(-88.0)));
        let bounded = bounded.max(L::splat(-87.0));
        let power = bounded.mul(L::splat(LOG2_E)).round();
        let rest = L::splat(-LN2_HIGH).fma(power, bounded);
        let rest = L::splat(-LN2_LOW).fma(power, rest);
        let mut sum = L::splat(TERMS[0]);
        for term in &TERMS[1..] {
            sum = sum.fma(rest, L::splat(*term));
        }
        let sum = sum.fma(rest.mul(rest), rest).add(L::splat(1.0));
        sum.mul(power.power_of_two())
    }
}

/// x / (1 + e^-x).
#[inline(always)]
pub(crate) fn silu<L: Lanes>(value: L) -> L {
    // SAFETY: `value` proves the instructions.
    unsafe {
        let opposite = L::splat(0.0).sub(value);
        value.div(L::splat(1.0).add(exp(opposite)))
    }
}
