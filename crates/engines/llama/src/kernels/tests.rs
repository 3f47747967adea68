//! All processors give the same bits, and the right numbers.

use proptest::prelude::*;

use super::Isa;
use super::product::{Inputs, Operands, Outputs, PANEL_STRIPES};
use crate::layout::{BLOCK, LANES};
use crate::matrix::tests::stored;
use crate::matrix::{Matrix, Packer};
use checkpoint::Format;

/// Rows and columns of a matrix. Miri takes a thousand times as long, and finds as much in fewer;
/// inputs are still enough for a panel.
const SIZE: (usize, usize) = if cfg!(miri) { (3, 256) } else { (37, 512) };
const MOST_ROWS: usize = if cfg!(miri) { 20 } else { 100 };
const MOST_INPUTS: usize = if cfg!(miri) { 12 } else { 20 };

fn packed(format: Format, rows: usize, columns: usize, bytes: &[u8]) -> Matrix {
    let mut packer = Packer::new(format, rows, columns);
    packer.rows(0, bytes).unwrap();
    packer.finish()
}

/// Inputs times a matrix, stripes cut in two.
fn product(isa: Isa, matrix: &Matrix, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let columns = matrix.blocks() * BLOCK;
    let mut values = Vec::new();
    let mut sums = Vec::new();
    for input in inputs {
        let mut row = input.clone();
        row.resize(columns, 0.0);
        let mut row_sums = vec![0.0; columns / BLOCK];
        isa.block_sums(&row, &mut row_sums);
        values.extend(row);
        sums.extend(row_sums);
    }
    let stride = matrix.stripes() * LANES;
    let mut outputs = vec![f32::NAN; inputs.len() * stride];
    let operands = Operands {
        input: Inputs {
            values: values.as_ptr(),
            stride: columns,
            sums: sums.as_ptr(),
            sums_stride: columns / BLOCK,
            count: inputs.len(),
        },
        output: Outputs {
            values: outputs.as_mut_ptr(),
            stride,
        },
    };
    let mut panel = vec![0.0; PANEL_STRIPES * columns * LANES];
    let cut = matrix.stripes() / 2;
    // SAFETY: inputs have all columns and sums, outputs a row of whole stripes for each, and there
    // is one thread.
    unsafe {
        isa.product(matrix, 0..cut, operands, &mut panel);
        isa.product(matrix, cut..matrix.stripes(), operands, &mut panel);
    }
    let rows = outputs.chunks(stride);
    rows.map(|row| row[..matrix.rows].to_vec()).collect()
}

fn inputs(count: usize, columns: usize, seed: u64) -> Vec<Vec<f32>> {
    let bytes = stored(Format::F32, count, columns, seed ^ 77);
    let mut values = vec![0.0; count * columns];
    Format::F32.dequantise(&bytes, &mut values);
    values.chunks(columns).map(<[f32]>::to_vec).collect()
}

#[test]
fn products_are_those_of_the_stored_numbers() {
    for format in Format::ALL {
        let (rows, columns) = SIZE;
        let bytes = stored(format, rows, columns, 5);
        let matrix = packed(format, rows, columns, &bytes);
        let mut numbers = vec![0.0; columns];
        let inputs = inputs(if cfg!(miri) { 1 } else { 3 }, columns, 9);
        let found = product(Isa::detect(), &matrix, &inputs);
        let row_bytes = format.bytes_for(columns).unwrap();
        for row in 0..rows {
            format.dequantise(&bytes[row * row_bytes..(row + 1) * row_bytes], &mut numbers);
            for (input, found) in inputs.iter().zip(&found) {
                let pairs = || numbers.iter().zip(input);
                let exact: f64 = pairs().map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
                let size: f64 = pairs().map(|(w, x)| f64::from(w * x).abs()).sum();
                let error = (f64::from(found[row]) - exact).abs();
                assert!(error <= 1e-5 * size, "{format}: {} for {exact}", found[row]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]

    /// However many inputs come together, on whichever processor.
    #[test]
    fn products_do_not_depend_on_company(
        format in prop::sample::select(Format::ALL.to_vec()),
        rows in 1..MOST_ROWS,
        count in 1..MOST_INPUTS,
        seed: u64,
    ) {
        let columns = SIZE.1;
        let matrix = packed(format, rows, columns, &stored(format, rows, columns, seed));
        let inputs = inputs(count, columns, seed);
        let together = product(Isa::detect(), &matrix, &inputs);
        for isa in Isa::available() {
            for (input, expected) in inputs.iter().zip(&together).take(3) {
                let alone = &product(isa, &matrix, std::slice::from_ref(input))[0];
                let bits = |row: &[f32]| row.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(alone), bits(expected), "{:?}", isa);
            }
        }
    }
}

#[test]
fn exponentials_are_near_those_of_the_library() {
    let mut worst = 0.0f64;
    for step in (-8700..8800).step_by(if cfg!(miri) { 500 } else { 1 }) {
        let value = step as f32 / 100.0;
        let mut row = [value; LANES];
        let up = [1.0; LANES];
        Isa::detect().gated(&mut row, &up);
        let exact = f64::from(value) / (1.0 + (-f64::from(value)).exp());
        if exact.abs() > 1e-30 {
            worst = worst.max((f64::from(row[0]) / exact - 1.0).abs());
        }
    }
    assert!(worst < 1e-6, "{worst}");
}
