//! Numbers of two bytes and of one, as a device stores them.
//!
//! Rounding is to the nearest, and to the even one of two that are as near. E4M3 has no infinity:
//! what is too large becomes the largest, as the device's own conversion does it.

#[cfg(test)]
mod tests;

use checkpoint::format::{bf16_to_f32, e4m3_to_f32};

use crate::ops::Dtype;

/// The largest number of E4M3.
pub const FP8_MAX: f32 = 448.0;
/// Bits of a float's fraction that E4M3 has no room for.
const FP8_CUT: u32 = 23 - 3;
/// The smallest E4M3 number with a full fraction is two to the power of minus this.
const FP8_LOWEST: i32 = 6;
const FP8_NAN: u8 = 0x7f;

/// The nearest BF16; not a number stays that.
pub fn f32_to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    if number.is_nan() {
        // A payload in the lower half alone would become an infinity.
        return (bits >> 16) as u16 | 0x40;
    }
    let even = (bits >> 16) & 1;
    ((bits + 0x7fff + even) >> 16) as u16
}

/// The nearest E4M3, at most 448 either way; not a number stays that.
pub fn f32_to_fp8(number: f32) -> u8 {
    let sign = (number.to_bits() >> 24) as u8 & 0x80;
    if number.is_nan() {
        return sign | FP8_NAN;
    }
    let magnitude = number.abs();
    if magnitude >= FP8_MAX {
        return sign | (FP8_NAN - 1);
    }
    let lowest = 2f32.powi(-FP8_LOWEST);
    if magnitude < lowest {
        // Steps of one size down to zero; the eighth of them is the first with an exponent.
        let steps = (magnitude / lowest * 8.0).round_ties_even();
        return sign | steps as u8;
    }
    let bits = magnitude.to_bits();
    let even = (bits >> FP8_CUT) & 1;
    let rounded = (bits + (1 << (FP8_CUT - 1)) - 1 + even) >> FP8_CUT;
    // From a float's offset of the exponent to E4M3's.
    sign | (rounded - ((127 - 7) << 3)) as u8
}

/// What a row is divided by before it becomes FP8, so that its largest magnitude is E4M3's.
pub fn fp8_scale(row: &[f32]) -> f32 {
    let largest = row.iter().fold(0f32, |most, number| most.max(number.abs()));
    match largest > 0.0 {
        true => largest / FP8_MAX,
        false => 1.0,
    }
}

/// Appends numbers as they are stored.
pub fn encode(dtype: Dtype, numbers: &[f32], bytes: &mut Vec<u8>) {
    match dtype {
        Dtype::F32 => bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes())),
        Dtype::Bf16 => bytes.extend(
            numbers
                .iter()
                .flat_map(|number| f32_to_bf16(*number).to_le_bytes()),
        ),
        Dtype::Fp8 => bytes.extend(numbers.iter().map(|number| f32_to_fp8(*number))),
    }
}

/// Appends what stored numbers stand for.
pub fn decode(dtype: Dtype, bytes: &[u8], numbers: &mut Vec<f32>) {
    match dtype {
        Dtype::F32 => numbers.extend(bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes)),
        Dtype::Bf16 => {
            let halves = bytes.as_chunks().0.iter().copied().map(u16::from_le_bytes);
            numbers.extend(halves.map(bf16_to_f32));
        }
        Dtype::Fp8 => numbers.extend(bytes.iter().copied().map(e4m3_to_f32)),
    }
}
