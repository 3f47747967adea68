//! Numbers of sixteen and eight bits to thirty-two. Nothing is rounded: every one of them is a float.

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

/// E4M3 without infinities: up to 448, and two codes that are no number.
#[inline]
pub const fn e4m3_to_f32(code: u8) -> f32 {
    let sign = (code as u32 & 0x80) << 24;
    let (exponent, fraction) = (code as u32 >> 3 & 0xf, code as u32 & 7);
    let magnitude = match (exponent, fraction) {
        (0, 0) => 0,
        (0, _) => {
            // Subnormal: the highest bit that is set becomes the implicit one.
            let shift = fraction.leading_zeros() - 28;
            (121 - shift) << 23 | (fraction << shift & 7) << 20
        }
        (15, 7) => f32::NAN.to_bits(),
        (1.., _) => (exponent + 120) << 23 | fraction << 20,
    };
    f32::from_bits(sign | magnitude)
}
