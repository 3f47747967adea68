//! Packed numbers are those of the file.

use super::{MatrixError, Packer};
use crate::format::Format;
use crate::kernels::tests::stored;

#[test]
fn rows_come_out_as_they_went_in() {
    for format in Format::ALL {
        let (rows, columns) = (21, 512);
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
fn numbers_that_are_none_are_refused() {
    let mut bytes = stored(Format::Q4_1, 3, 32, 1);
    // The scale of the second row.
    bytes[20..22].copy_from_slice(&0x7e00u16.to_le_bytes());
    let refused = Packer::new(Format::Q4_1, 3, 32).rows(0, &bytes);
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
