//! What the twin computes in small cases, and what it refuses.

use sampling::Pick;

use super::*;
use crate::ops::{MOST_FORBIDDEN, PAGE_TOKENS, Pages, Rows};

fn host() -> HostOps {
    HostOps::new(1 << 20)
}

fn numbers(ops: &mut HostOps, numbers: &[f32]) -> HostBuffer {
    let buffer = ops.allocate(4 * numbers.len()).unwrap();
    buffer.store(Dtype::F32, 0, numbers);
    buffer
}

fn indices(ops: &mut HostOps, indices: &[u32]) -> HostBuffer {
    let bytes: Vec<u8> = indices
        .iter()
        .flat_map(|index| index.to_le_bytes())
        .collect();
    let buffer = ops.allocate(bytes.len()).unwrap();
    ops.write(&buffer, 0, &bytes).unwrap();
    buffer
}

fn plain(values: &HostBuffer) -> Activations<'_, HostBuffer> {
    Activations {
        values,
        dtype: Dtype::F32,
        scales: None,
    }
}

#[test]
fn memory_is_poisoned_counted_and_given_back() {
    let mut ops = HostOps::new(1024);
    let one = ops.allocate(1000).unwrap();
    assert!(
        one.numbers(Dtype::F32, 0, 250)
            .iter()
            .all(|number| number.is_nan())
    );
    assert_eq!(one.indices(0, 1), [PADDING]);
    assert!(matches!(
        ops.allocate(25),
        Err(OpsError::OutOfMemory { bytes: 25 })
    ));
    let part = ops.part(&one, 256, 4);
    drop(one);
    assert_eq!(ops.free_bytes().unwrap(), 24, "its part is there");
    ops.write(&part, 0, &[1; 4]).unwrap();
    drop(part);
    assert_eq!(ops.free_bytes().unwrap(), 1024);
}

#[test]
#[should_panic(expected = "are not within")]
fn what_lies_outside_of_a_part_panics() {
    let mut ops = host();
    let whole = ops.allocate(1024).unwrap();
    let part = ops.part(&whole, 256, 16);
    let _ = ops.write(&part, 8, &[0; 9]);
}

#[test]
#[should_panic(expected = "is always the same step")]
fn a_recorded_step_that_changes_panics() {
    let mut ops = host();
    let logits = numbers(&mut ops, &[1.0, 2.0]);
    let tokens = ops.allocate(8).unwrap();
    let draws = draws(&mut ops, &[DrawRow::NOTHING]);
    let key = RecordKey {
        rows: 1,
        outputs: 1,
        longest: 256,
    };
    for vocabulary in [2, 2, 1] {
        let step = &mut |ops: &mut HostOps| {
            ops.draw(Draw {
                rows: 1,
                vocabulary,
                logits: &logits,
                draws: &draws,
                tokens: &tokens,
            })
        };
        ops.recorded(key, step).unwrap();
    }
}

#[test]
fn a_norm_adds_and_scales() {
    let mut ops = host();
    let residual = numbers(&mut ops, &[3.0, 3.0, 0.0, 2.0]);
    let added = numbers(&mut ops, &[0.5, 1.0, 1.0, 0.0]);
    let row_scales = numbers(&mut ops, &[2.0, 3.0]);
    let column_scales = numbers(&mut ops, &[0.0, 0.5]);
    let weight = numbers(&mut ops, &[1.0, 10.0]);
    let out = ops.allocate(16).unwrap();
    let norm = Norm {
        rows: 2,
        width: 2,
        residual: &residual,
        addition: Some(Product {
            values: &added,
            dtype: Dtype::F32,
            row_scales: Some(&row_scales),
            column_scales: Some(&column_scales),
        }),
        weight: &weight,
        epsilon: 0.0,
        out: plain(&out),
    };
    ops.norm(norm).unwrap();
    assert_eq!(residual.numbers(Dtype::F32, 0, 4), [3.0, 4.0, 0.0, 2.0]);
    // 3 and 4 have a root mean square of 5 over the root of 2.
    let root = 2f32.sqrt();
    let near = |found: Vec<f32>, expected: &[f32]| {
        for (one, other) in found.iter().zip(expected) {
            assert!((one - other).abs() < 1e-5, "{found:?}");
        }
    };
    let expected = [3.0 * root / 5.0, 40.0 * root / 5.0, 0.0, 10.0 * root];
    near(out.numbers(Dtype::F32, 0, 4), &expected);
}

#[test]
fn a_row_of_fp8_is_stored_by_its_own_scale() {
    let mut ops = host();
    let (values, scales) = (ops.allocate(4).unwrap(), ops.allocate(8).unwrap());
    let to = Activations {
        values: &values,
        dtype: Dtype::Fp8,
        scales: Some(&scales),
    };
    store_row(&to, 0, vec![0.0, 0.0]);
    store_row(&to, 1, vec![-896.0, 3.1]);
    assert_eq!(scales.numbers(Dtype::F32, 0, 2), [1.0, 2.0]);
    assert_eq!(values.numbers(Dtype::Fp8, 0, 4), [0.0, 0.0, -448.0, 1.5]);
}

fn draws(ops: &mut HostOps, rows: &[DrawRow]) -> HostBuffer {
    let mut words = Vec::new();
    rows.iter().for_each(|row| row.encode(&mut words));
    indices(ops, &words)
}

#[test]
fn tokens_are_drawn_as_each_row_says() {
    const BAD: f32 = f32::NAN;
    const NONE: f32 = f32::NEG_INFINITY;
    let cold = Pick {
        share: 0.9,
        scale: 0.0,
        min_p: 0.0,
        top_p: 1.0,
        top_k: 0,
    };
    let warm = Pick { scale: 1.0, ..cold };
    let row = |pick, forbidden: &[u32]| DrawRow::new(pick, forbidden).unwrap();
    let cases = [
        // The first of equals.
        ([1.0, 5.0, 5.0], row(cold, &[]), 1),
        ([1.0, 5.0, 5.0], row(cold, &[1, 7]), 2),
        // A ninth, four, and four: by their places, or likeliest first.
        ([1.0 - 4f32.ln(), 1.0, 1.0], row(warm, &[]), 2),
        ([1.0, 1.0 - 4f32.ln(), 1.0], row(warm, &[2]), 1),
        ([1.0, 0.5, 1.0], row(Pick { top_k: 1, ..warm }, &[]), 0),
        ([1.0, 0.5, 1.0], row(Pick { top_p: 0.5, ..warm }, &[]), 2),
        ([1.0, 0.5, 1.0], row(Pick { min_p: 0.9, ..warm }, &[]), 2),
        ([1.0, BAD, 9.0], row(cold, &[]), PADDING),
        ([1.0, BAD, 9.0], row(cold, &[1]), 2),
        ([NONE, f32::INFINITY, 9.0], row(warm, &[]), PADDING),
        ([NONE, 1.0, NONE], row(warm, &[1]), PADDING),
        ([BAD, BAD, BAD], DrawRow::NOTHING, PADDING),
    ];
    let mut ops = host();
    let logits = numbers(&mut ops, cases.map(|case| case.0).as_flattened());
    let draws = draws(&mut ops, &cases.map(|case| case.1));
    let tokens = ops.allocate(4 * cases.len()).unwrap();
    ops.draw(Draw {
        rows: cases.len(),
        vocabulary: 3,
        logits: &logits,
        draws: &draws,
        tokens: &tokens,
    })
    .unwrap();
    assert_eq!(tokens.indices(0, cases.len()), cases.map(|case| case.2));
    assert_eq!(DrawRow::new(cold, &[1; MOST_FORBIDDEN + 1]), None);
}

#[test]
fn random_numbers_are_normal() {
    let mut ops = host();
    let count = 20_000;
    let to = ops.allocate(4 * count).unwrap();
    ops.fill_random(FillRandom {
        to: &to,
        dtype: Dtype::F32,
        count,
        seed: 5,
        deviation: 2.0,
    })
    .unwrap();
    let found = to.numbers(Dtype::F32, 0, count);
    let moment = |power: i32| {
        let powers = found
            .iter()
            .map(|number| f64::from(*number / 2.0).powi(power));
        powers.sum::<f64>() / count as f64
    };
    assert!(moment(1).abs() < 0.02, "{}", moment(1));
    assert!((moment(2) - 1.0).abs() < 0.03, "{}", moment(2));
    assert!((moment(4) - 3.0).abs() < 0.2, "{}", moment(4));
}

/// A page has keys by token, then values by component, wherever it is in its block.
#[test]
fn pages_lie_as_the_seam_says() {
    let (layers, kv_heads, size, blocks) = (3, 2, 4, 2);
    let mut ops = host();
    let pool = ops
        .allocate(blocks * layers * kv_heads * 2 * PAGE_TOKENS * size * 4)
        .unwrap();
    let pages = Pages {
        pool: &pool,
        dtype: Dtype::F32,
        layers,
        layer: 2,
        kv_heads,
        head_size: size,
        key_scale: 1.0,
        value_scale: 1.0,
    };
    assert_eq!(pages.block_bytes(), 3 * 2 * 2 * 32 * 4 * 4);
    // One query head for both heads of keys: position 37 is token 5 of the table's second block.
    let width = (2 + 2 + 2) * size;
    let row: Vec<f32> = (0..width as u32).map(|number| number as f32).collect();
    let (qkv, queries) = (numbers(&mut ops, &row), ops.allocate(8 * 4).unwrap());
    let angles = [1.0, 1.0, 0.0, 0.0].repeat(40);
    let (angles, positions) = (numbers(&mut ops, &angles), indices(&mut ops, &[37]));
    let (tables, table) = (indices(&mut ops, &[0]), indices(&mut ops, &[0, 1]));
    ops.rotate_store(RotateStore {
        rows: Rows {
            count: 1,
            positions: &positions,
            tables: &tables,
            blocks: &table,
            table_width: 2,
        },
        qkv: Product {
            values: &qkv,
            dtype: Dtype::F32,
            row_scales: None,
            column_scales: None,
        },
        bias: None,
        heads: 2,
        angles: &angles,
        pairs: Pairs::Halves,
        pages,
        queries: &queries,
    })
    .unwrap();
    assert_eq!(queries.numbers(Dtype::F32, 0, 8), row[..8]);
    let block = layers * kv_heads * 2 * PAGE_TOKENS * size;
    for head in 0..kv_heads {
        let page = block + (2 * kv_heads + head) * 2 * PAGE_TOKENS * size;
        let keys = pool.numbers(Dtype::F32, page + 5 * size, size);
        assert_eq!(keys, row[8 + head * size..][..size]);
        for component in 0..size {
            let at = page + PAGE_TOKENS * size + component * PAGE_TOKENS + 5;
            let value = pool.numbers(Dtype::F32, at, 1)[0];
            assert_eq!(value, row[16 + head * size + component]);
        }
    }
    let all = pool.numbers(Dtype::F32, 0, blocks * block);
    let written = all.iter().filter(|number| !number.is_nan()).count();
    assert_eq!(written, 2 * kv_heads * size, "and nothing else");
}
