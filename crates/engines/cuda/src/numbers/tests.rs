//! Conversions against tables and against the definition.

use super::*;

/// E4M3's positive numbers by its definition, in order of their codes.
fn positive() -> Vec<f32> {
    let number = |code: u32| match (code >> 3, code & 7) {
        (0, fraction) => fraction as f32 / 512.0,
        (exponent, fraction) => (1.0 + fraction as f32 / 8.0) * 2f32.powi(exponent as i32 - 7),
    };
    (0..127).map(number).collect()
}

#[test]
fn every_code_of_fp8_stands_for_its_number_and_comes_back() {
    for (code, number) in (0u8..).zip(positive()) {
        assert_eq!(e4m3_to_f32(code), number, "{code:#x}");
        assert_eq!(e4m3_to_f32(code | 0x80), -number, "{code:#x}");
        assert_eq!(f32_to_fp8(number), code, "{number}");
        assert_eq!(f32_to_fp8(-number), code | 0x80, "{number}");
    }
    for code in [0x7f, 0xff] {
        assert!(e4m3_to_f32(code).is_nan());
        assert_eq!(f32_to_fp8(e4m3_to_f32(code)) & 0x7f, 0x7f);
    }
    assert_eq!(positive()[126], FP8_MAX);
}

#[test]
fn fp8_takes_the_nearest_and_of_two_the_even_one() {
    let numbers = positive();
    for code in 0..126u8 {
        let (low, high) = (numbers[usize::from(code)], numbers[usize::from(code) + 1]);
        // Exact: both have four digits, their mean has five.
        let middle = (low + high) / 2.0;
        let even = if code % 2 == 0 { code } else { code + 1 };
        assert_eq!(f32_to_fp8(middle), even, "{middle}");
        assert_eq!(f32_to_fp8(middle.next_down()), code, "below {middle}");
        assert_eq!(f32_to_fp8(middle.next_up()), code + 1, "above {middle}");
    }
    for (number, code) in [
        (449.0, 0x7e),
        (1e30, 0x7e),
        (f32::INFINITY, 0x7e),
        (f32::NEG_INFINITY, 0xfe),
        (1e-30, 0),
        (-1e-30, 0x80),
    ] {
        assert_eq!(f32_to_fp8(number), code, "{number}");
    }
}

#[test]
fn bf16_takes_the_nearest_and_of_two_the_even_one() {
    for half in 0..=u16::MAX {
        let number = bf16_to_f32(half);
        if number.is_nan() {
            assert!(bf16_to_f32(f32_to_bf16(number)).is_nan(), "{half:#x}");
        } else {
            assert_eq!(f32_to_bf16(number), half);
        }
    }
    for (bits, half) in [
        (0x3f80_8000, 0x3f80),
        (0x3f80_8001, 0x3f81),
        (0x3f81_8000, 0x3f82),
        (0x3f80_7fff, 0x3f80),
        (0x7f7f_ffff, 0x7f80),
        (0xff80_0001, 0xffc0),
    ] {
        assert_eq!(f32_to_bf16(f32::from_bits(bits)), half, "{bits:#x}");
    }
}

#[test]
fn a_row_fills_the_range_of_fp8_and_zeros_have_a_scale() {
    assert_eq!(fp8_scale(&[1.0, -896.0, 3.0]), 2.0);
    assert_eq!(fp8_scale(&[0.0, -0.0]), 1.0);
}

#[test]
fn stored_numbers_come_back_rounded() {
    let numbers = [0.3f32, -7.7, 1000.0, 0.0];
    for (dtype, expected) in [
        (Dtype::F32, numbers),
        (Dtype::Bf16, [0.30078125, -7.6875, 1000.0, 0.0]),
        (Dtype::Fp8, [0.3125, -7.5, 448.0, 0.0]),
    ] {
        let (mut bytes, mut back) = (Vec::new(), Vec::new());
        encode(dtype, &numbers, &mut bytes);
        assert_eq!(bytes.len(), numbers.len() * dtype.bytes());
        decode(dtype, &bytes, &mut back);
        assert_eq!(back, expected, "{dtype:?}");
    }
}
