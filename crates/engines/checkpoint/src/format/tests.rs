//! Every format against what gguf-py makes of the same bytes; halves and E4M3, which it lacks, against
//! their definition.

mod golden;

use proptest::prelude::*;

use super::*;

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn every_format_is_what_the_reference_makes_of_it() {
    for &(format, stored, expected) in golden::GOLDEN {
        let stored = bytes(stored);
        let expected: Vec<u32> = bytes(expected)
            .chunks(4)
            .map(|four| u32::from_le_bytes(four.try_into().unwrap()))
            .collect();
        let mut numbers = vec![0.0; expected.len()];
        format.dequantise(&stored, &mut numbers);
        let found: Vec<u32> = numbers.iter().map(|number| number.to_bits()).collect();
        assert_eq!(found, expected, "{format}");
    }
    for format in Format::ALL.into_iter().filter(|of| *of != Format::E4m3) {
        assert!(golden::GOLDEN.iter().any(|&(of, ..)| of == format));
    }
}

#[test]
fn rows_are_whole_blocks() {
    for format in Format::ALL {
        let block = format.block_len();
        assert_eq!(format.bytes_for(0), Some(0));
        assert_eq!(format.bytes_for(block * 3), Some(format.block_bytes() * 3));
        if block > 1 {
            assert_eq!(format.bytes_for(block + 1), None);
            assert_eq!(format.bytes_for(block / 2), None);
        }
    }
    assert_eq!(Format::F32.bytes_for(usize::MAX), None);
}

#[test]
#[should_panic(expected = "a row of 32 numbers in Q8_0")]
fn a_row_of_another_length_is_a_mistake() {
    Format::Q8_0.dequantise(&[0; 33], &mut [0.0; 32]);
}

/// All of them, because there are not many.
#[test]
fn halves_are_what_their_bits_say() {
    for bits in 0..=u16::MAX {
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
        let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
        let found = f16_to_f32(bits);
        assert_eq!(found.is_sign_negative(), bits >> 15 == 1);
        match exponent {
            31 if fraction > 0.0 => assert!(found.is_nan(), "{bits:#x}"),
            31 => assert!(found.is_infinite(), "{bits:#x}"),
            0 => assert_eq!(f64::from(found), sign * fraction * 2_f64.powi(-24)),
            1.. => {
                let expected = sign * (1024.0 + fraction) * 2_f64.powi(exponent - 25);
                assert_eq!(f64::from(found), expected, "{bits:#x}");
            }
            ..0 => unreachable!("five bits"),
        }
    }
}

/// All of them: four bits of exponent, three of fraction, and no infinity.
#[test]
fn codes_of_e4m3_are_what_their_bits_say() {
    for code in 0..=u8::MAX {
        let (exponent, fraction) = (i32::from(code >> 3 & 15), f64::from(code & 7));
        let sign = if code >> 7 == 0 { 1.0 } else { -1.0 };
        let mut found = [0.0];
        Format::E4m3.dequantise(&[code], &mut found);
        let found = found[0];
        assert_eq!(found.is_sign_negative(), code >> 7 == 1, "{code:#x}");
        match exponent {
            15 if fraction == 7.0 => assert!(found.is_nan(), "{code:#x}"),
            0 => assert_eq!(f64::from(found), sign * fraction / 512.0, "{code:#x}"),
            _ => {
                let expected = sign * (8.0 + fraction) * 2_f64.powi(exponent - 10);
                assert_eq!(f64::from(found), expected, "{code:#x}");
            }
        }
    }
}

proptest! {
    #[test]
    fn halves_keep_their_order(one in 0_u16..0x7c00, other in 0_u16..0x7c00) {
        prop_assert_eq!(f16_to_f32(one) < f16_to_f32(other), one < other);
        prop_assert_eq!(bf16_to_f32(one) < bf16_to_f32(other), one < other);
        prop_assert_eq!(f16_to_f32(one | 0x8000), -f16_to_f32(one));
    }

    #[test]
    fn a_float_cut_in_half_is_at_most_a_128th_away(bits in 0x0080_0000_u32..0x7f80_0000) {
        let (whole, cut) = (f32::from_bits(bits), bf16_to_f32((bits >> 16) as u16));
        prop_assert!(cut <= whole && whole - cut <= whole / 128.0);
    }

    #[test]
    fn any_bytes_make_a_row(bytes in prop::collection::vec(any::<u8>(), 420)) {
        for format in Format::ALL {
            let blocks = bytes.len() / format.block_bytes();
            let mut numbers = vec![0.0; blocks * format.block_len()];
            format.dequantise(&bytes[..blocks * format.block_bytes()], &mut numbers);
        }
    }
}
