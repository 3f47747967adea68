//! Sixteen-bit numbers to thirty-two bits. Nothing is rounded: every one of them is a float.

/// IEEE half precision.
#[inline]
pub const fn f16_to_f32(bits: u16) -> f32 {
    let bits = bits as u32;
    let sign = (bits & 0x8000) << 16;
    let exponent = bits >> 10 & 0x1f;
    let fraction = bits & 0x3ff;
    let magnitude = match exponent {
        0 if fraction == 0 => 0,
        0 => {
            // Subnormal: the highest bit that is set becomes the implicit one.
            let shift = fraction.leading_zeros() - 21;
            (113 - shift) << 23 | (fraction << shift & 0x3ff) << 13
        }
        // Infinity, and what is not a number keeps its payload.
        31 => 0xff << 23 | fraction << 13,
        1.. => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// The upper half of a float.
#[inline]
pub const fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits((bits as u32) << 16)
}
