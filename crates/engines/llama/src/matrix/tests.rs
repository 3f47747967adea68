//! Packed numbers are those of the file.

use super::{MatrixError, Packer};
use checkpoint::Format;

/// A row-major matrix's bytes in a format: any bytes, but scales that are small numbers.
pub(crate) fn stored(format: Format, rows: usize, columns: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    let blocks = rows * columns / format.block_len();
    let mut bytes = Vec::new();
    let half = |next: u32| (0x2c00 | (next & 0x83ff) as u16).to_le_bytes();
    for _ in 0..blocks {
        let mut block: Vec<u8> = (0..format.block_bytes()).map(|_| next() as u8).collect();
        let scales: &[usize] = match format {
            Format::F32 => {
                let value = (next() as f32 / 2f32.powi(31) - 0.5) * 2.0;
                block.copy_from_slice(&value.to_le_bytes());
                &[]
            }
            Format::F16 => &[0],
            Format::Bf16 => {
                block = vec![next() as u8, (next() as u8 & 0x80) | 0x3d];
                &[]
            }
            Format::E4m3 => {
                // The last code is no number.
                block[0] &= !1;
                &[]
            }
            Format::Q8_0 | Format::Q4_0 | Format::Q5_0 => &[0],
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => &[0, 2],
            Format::Q6K => &[208],
        };
        for at in scales {
            block[*at..at + 2].copy_from_slice(&half(next()));
        }
        bytes.extend(block);
    }
    bytes
}

#[test]
fn rows_come_out_as_they_went_in() {
    for format in Format::ALL {
        let (rows, columns) = if cfg!(miri) { (3, 256) } else { (21, 512) };
        let bytes = stored(format, rows, columns, 11);
        let mut packer = Packer::new(format, rows, columns);
        packer.rows(0, &bytes).unwrap();
        let matrix = packer.finish();
        let row_bytes = format.bytes_for(columns).unwrap();
        let (mut expected, mut found) = (vec![0.0; columns], vec![0.0; columns]);
        for row in 0..rows {
            format.dequantise(&bytes[row * row_bytes..][..row_bytes], &mut expected);
            matrix.row(row, &mut found);
            assert_eq!(expected, found, "{format}, row {row}");
        }
    }
}

#[test]
fn rows_of_fp8_are_multiplied_by_their_scales() {
    let (rows, columns) = (19, 32);
    let bytes = stored(Format::E4m3, rows, columns, 3);
    let mut packer = Packer::new(Format::E4m3, rows, columns);
    packer.rows(0, &bytes).unwrap();
    let mut matrix = packer.finish();
    let scales: Vec<f32> = (0..rows).map(|row| 0.1 + row as f32).collect();
    matrix.scale_rows(&scales);
    let (mut expected, mut found) = (vec![0.0; columns], vec![0.0; columns]);
    for (row, bytes) in bytes.chunks_exact(columns).enumerate() {
        Format::E4m3.dequantise(bytes, &mut expected);
        expected
            .iter_mut()
            .for_each(|number| *number *= scales[row]);
        matrix.row(row, &mut found);
        assert_eq!(expected, found, "row {row}");
    }
}

#[test]
fn numbers_that_are_none_are_refused() {
    let mut bytes = stored(Format::Q4_1, 3, 32, 1);
    // The scale of the second row.
    bytes[20..22].copy_from_slice(&0x7e00u16.to_le_bytes());
    let refused = Packer::new(Format::Q4_1, 3, 32).rows(0, &bytes);
    assert_eq!(refused, Err(MatrixError::NotFinite { row: 1 }));
    let mut bytes = stored(Format::E4m3, 2, 32, 1);
    bytes[40] = 0xff;
    let refused = Packer::new(Format::E4m3, 2, 32).rows(0, &bytes);
    assert_eq!(refused, Err(MatrixError::NotFinite { row: 1 }));
    let mut bytes = stored(Format::F32, 2, 8, 1);
    bytes[4..8].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let refused = Packer::new(Format::F32, 2, 8).rows(0, &bytes);
    assert_eq!(refused, Err(MatrixError::NotFinite { row: 0 }));
}

#[test]
fn a_piece_of_a_row_is_refused() {
    let bytes = stored(Format::Q8_0, 2, 32, 1);
    let refused = Packer::new(Format::Q8_0, 2, 32).rows(0, &bytes[..60]);
    assert!(matches!(refused, Err(MatrixError::Size { have: 60, .. })));
}
