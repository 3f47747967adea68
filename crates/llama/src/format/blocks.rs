//! One block of each quantised format, as ggml lays it out.
//!
//! Products and differences are rounded where ggml rounds them: the order of operations matters.

use super::f16_to_f32;

/// Numbers in a block of the K formats, and in the others.
const LARGE: usize = 256;
const SMALL: usize = 32;

/// Takes a row block by block. Lengths were checked before.
#[inline]
pub(super) fn each<const B: usize, const N: usize>(
    bytes: &[u8],
    numbers: &mut [f32],
    block: impl Fn(&[u8; B], &mut [f32; N]),
) {
    let (from, _) = bytes.as_chunks::<B>();
    let (to, _) = numbers.as_chunks_mut::<N>();
    for (from, to) in from.iter().zip(to) {
        block(from, to);
    }
}

#[inline]
fn half(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}

pub(super) fn q8_0(block: &[u8; 34], numbers: &mut [f32; SMALL]) {
    let scale = half(block, 0);
    for (number, byte) in numbers.iter_mut().zip(&block[2..]) {
        *number = f32::from(byte.cast_signed()) * scale;
    }
}

pub(super) fn q4_0(block: &[u8; 18], numbers: &mut [f32; SMALL]) {
    let scale = half(block, 0);
    let (low, high) = numbers.split_at_mut(SMALL / 2);
    for (i, byte) in block[2..].iter().enumerate() {
        low[i] = (f32::from(byte & 15) - 8.0) * scale;
        high[i] = (f32::from(byte >> 4) - 8.0) * scale;
    }
}

pub(super) fn q4_1(block: &[u8; 20], numbers: &mut [f32; SMALL]) {
    let (scale, least) = (half(block, 0), half(block, 2));
    let (low, high) = numbers.split_at_mut(SMALL / 2);
    for (i, byte) in block[4..].iter().enumerate() {
        low[i] = f32::from(byte & 15) * scale + least;
        high[i] = f32::from(byte >> 4) * scale + least;
    }
}

/// Four bits of each number, and the fifth bits of all in one word.
fn five_bits(fifth: &[u8], bytes: &[u8], mut number: impl FnMut(usize, f32)) {
    let fifth = u32::from_le_bytes([fifth[0], fifth[1], fifth[2], fifth[3]]);
    let bit = |i: usize| ((fifth >> i & 1) << 4) as u8;
    for (i, byte) in bytes.iter().enumerate() {
        let other = i + SMALL / 2;
        number(i, f32::from(byte & 15 | bit(i)));
        number(other, f32::from(byte >> 4 | bit(other)));
    }
}

pub(super) fn q5_0(block: &[u8; 22], numbers: &mut [f32; SMALL]) {
    let scale = half(block, 0);
    five_bits(&block[2..6], &block[6..], |i, number| {
        numbers[i] = (number - 16.0) * scale;
    });
}

pub(super) fn q5_1(block: &[u8; 24], numbers: &mut [f32; SMALL]) {
    let (scale, least) = (half(block, 0), half(block, 2));
    five_bits(&block[4..8], &block[8..], |i, number| {
        numbers[i] = number * scale + least;
    });
}

/// Scale and minimum of one of the eight groups: six bits each, packed into twelve bytes.
#[inline]
fn scale_and_minimum(packed: &[u8], group: usize) -> (f32, f32) {
    let (scale, minimum) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        // The later groups lie in the last bytes and in bits that the first ones leave.
        let rest = packed[group + 4];
        (
            rest & 15 | packed[group - 4] >> 6 << 4,
            rest >> 4 | packed[group] >> 6 << 4,
        )
    };
    (f32::from(scale), f32::from(minimum))
}

pub(super) fn q4_k(block: &[u8; 144], numbers: &mut [f32; LARGE]) {
    let (scales, minima) = (half(block, 0), half(block, 2));
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(&block[4..16], group);
        let (scale, minimum) = (scales * scale, minima * minimum);
        let bytes = &block[16 + group / 2 * 32..][..32];
        let shift = group % 2 * 4;
        for (number, byte) in numbers.iter_mut().zip(bytes) {
            *number = scale * f32::from(byte >> shift & 15) - minimum;
        }
    }
}

pub(super) fn q5_k(block: &[u8; 176], numbers: &mut [f32; LARGE]) {
    let (scales, minima) = (half(block, 0), half(block, 2));
    let fifth = &block[16..48];
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (scale, minimum) = scale_and_minimum(&block[4..16], group);
        let (scale, minimum) = (scales * scale, minima * minimum);
        let bytes = &block[48 + group / 2 * 32..][..32];
        let shift = group % 2 * 4;
        for (number, (byte, fifth)) in numbers.iter_mut().zip(bytes.iter().zip(fifth)) {
            let bits = byte >> shift & 15 | (fifth >> group & 1) << 4;
            *number = scale * f32::from(bits) - minimum;
        }
    }
}

pub(super) fn q6_k(block: &[u8; 210], numbers: &mut [f32; LARGE]) {
    let all = half(block, 208);
    for (group, numbers) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (side, part) = (group / 4, group % 4);
        let low = &block[side * 64 + part % 2 * 32..][..32];
        let high = &block[128 + side * 32..][..32];
        for (i, number) in numbers.iter_mut().enumerate() {
            let scale = block[192 + group * 2 + i / 16].cast_signed();
            let scale = all * f32::from(scale);
            let bits = low[i] >> (part / 2 * 4) & 15 | (high[i] >> (part * 2) & 3) << 4;
            *number = scale * (f32::from(bits) - 32.0);
        }
    }
}
