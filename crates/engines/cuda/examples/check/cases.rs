//! What is checked: each operation in the shapes of tiny models, which need the general kernels, and of
//! large ones, which take the fast ones.

mod attention;
mod draw;

use std::fmt;

use cuda::ops::{
    Dtype, Embed, FillRandom, Gate, Gemm, Norm, Ops, OpsError, Product, RecordKey, Weight,
};
use serde_json::{Value, json};

use self::attention::{AttendCase, StoreCase};
use self::draw::DrawCase;
use crate::data::{self, Out, Random, get, poisoned, put, put_indices};

/// How far results may be from the twin's, stored as BF16 and as FP8: half a rounding step for all, or
/// a whole one for the few that lie between two numbers.
const BF16_LIMIT: f64 = 2e-3;
const FP8_LIMIT: f64 = 2e-2;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Case {
    Embed {
        rows: usize,
        width: usize,
        table: Dtype,
    },
    Norm {
        rows: usize,
        width: usize,
        out: Dtype,
        how: NormCase,
    },
    Gemm {
        rows: usize,
        inputs: usize,
        outputs: usize,
        dtype: Dtype,
        out: Dtype,
        /// Rows up to which ways were searched before, if they were.
        prepared: Option<usize>,
    },
    Store(StoreCase),
    Attend(AttendCase),
    Gate {
        rows: usize,
        width: usize,
        out: Dtype,
    },
    Draw(DrawCase),
    FillRandom {
        count: usize,
        dtype: Dtype,
    },
    Recorded {
        rows: usize,
        width: usize,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum NormCase {
    Plain,
    Added,
    Scaled,
}

pub(crate) fn all() -> Vec<Case> {
    use Dtype::{Bf16, F32, Fp8};
    let mut cases = Vec::new();
    for (rows, width) in [(1, 64), (3, 20), (5, 576), (64, 8192)] {
        cases.extend([Bf16, F32].map(|table| Case::Embed { rows, width, table }));
        for out in [Bf16, Fp8] {
            for how in [NormCase::Plain, NormCase::Added, NormCase::Scaled] {
                cases.push(Case::Norm {
                    rows,
                    width,
                    out,
                    how,
                });
            }
        }
    }
    for (rows, width) in [
        (1, 48),
        (3, 20),
        (2, 1536),
        (1, 28672),
        (33, 28672),
        (64, 1536),
        (65, 1536),
        (130, 14336),
        (171, 28672),
        (300, 20),
        (67, 28680),
        (5000, 96),
    ] {
        cases.extend([Bf16, Fp8].map(|out| Case::Gate { rows, width, out }));
    }
    cases.extend(gemms());
    cases.extend(attention::stores().into_iter().map(Case::Store));
    cases.extend(attention::attends().into_iter().map(Case::Attend));
    cases.extend(draw::draws().into_iter().map(Case::Draw));
    cases.extend([F32, Bf16, Fp8].map(|dtype| Case::FillRandom {
        count: 100_003,
        dtype,
    }));
    cases.push(Case::Recorded {
        rows: 4,
        width: 512,
    });
    cases
}

fn gemms() -> Vec<Case> {
    use Dtype::{Bf16, F32, Fp8};
    let mut cases = Vec::new();
    for (rows, inputs, outputs) in [
        (1, 64, 96),
        (5, 20, 36),
        (17, 576, 960),
        (64, 4096, 1024),
        (300, 512, 768),
    ] {
        for dtype in [Bf16, Fp8] {
            cases.extend([Bf16, F32].map(|out| Case::Gemm {
                rows,
                inputs,
                outputs,
                dtype,
                out,
                prepared: None,
            }));
        }
    }
    // At, above and below the numbers of rows that are searched, and more than were.
    for rows in [1, 3, 37, 128, 129, 512, 513, 1025, 1280, 1300] {
        cases.extend([Bf16, Fp8].map(|dtype| Case::Gemm {
            rows,
            inputs: 256,
            outputs: 320,
            dtype,
            out: Bf16,
            prepared: Some(1290),
        }));
    }
    cases
}

impl fmt::Display for Case {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{self:?}")
    }
}

impl Case {
    /// What is said of results beside the twin's.
    pub(crate) fn compare(&self, results: &[Vec<f32>], expected: &[Vec<f32>]) -> Value {
        if let Self::Draw(case) = self {
            return case.compare(results, expected);
        }
        let limit = self.limit();
        let errors: Vec<f64> = results
            .iter()
            .zip(expected)
            .map(|(results, expected)| data::distance(results, expected))
            .collect();
        let ok = errors.iter().all(|error| *error <= limit);
        json!({ "ok": ok, "errors": errors, "limit": limit })
    }

    fn limit(&self) -> f64 {
        let of = |dtype| {
            if dtype == Dtype::Fp8 {
                FP8_LIMIT
            } else {
                BF16_LIMIT
            }
        };
        match self {
            Self::Norm { out, .. } | Self::Gate { out, .. } => of(*out),
            Self::Store(case) => of(case.pages),
            Self::Attend(case) => of(case.out),
            Self::FillRandom { dtype, .. } => of(*dtype),
            // The matrix unit adds FP8 products with fewer bits than F32 has.
            Self::Gemm {
                dtype: Dtype::Fp8, ..
            } => 4e-3,
            Self::Embed { .. } | Self::Gemm { .. } | Self::Recorded { .. } => BF16_LIMIT,
            Self::Draw(_) => 0.0,
        }
    }

    /// The results, as numbers.
    pub(crate) fn run<O: Ops>(&self, ops: &mut O) -> Result<Vec<Vec<f32>>, OpsError> {
        match *self {
            Self::Embed { rows, width, table } => embed(ops, (rows, width), table),
            Self::Norm {
                rows,
                width,
                out,
                how,
            } => norm(ops, (rows, width), out, how),
            Self::Gemm {
                rows,
                inputs,
                outputs,
                dtype,
                out,
                prepared,
            } => gemm(ops, (rows, inputs, outputs), (dtype, out), prepared),
            Self::Store(case) => case.run(ops),
            Self::Attend(case) => case.run(ops),
            Self::Gate { rows, width, out } => gate(ops, rows, width, out),
            Self::Draw(case) => case.run(ops),
            Self::FillRandom { count, dtype } => fill_random(ops, count, dtype),
            Self::Recorded { rows, width } => recorded(ops, rows, width),
        }
    }
}

fn embed<O: Ops>(
    ops: &mut O,
    (rows, width): (usize, usize),
    dtype: Dtype,
) -> Result<Vec<Vec<f32>>, OpsError> {
    let (mut random, vocabulary) = (Random::new(1), 1000);
    let table = Weight {
        values: put(ops, dtype, &random.numbers(vocabulary * width, 1.0))?,
        dtype,
        outputs: vocabulary,
        inputs: width,
        scales: None,
    };
    let tokens: Vec<u32> = (0..rows).map(|_| random.below(vocabulary) as u32).collect();
    let tokens = put_indices(ops, &tokens)?;
    let residual = poisoned(ops, rows * width * 4)?;
    ops.embed(Embed {
        tokens: &tokens,
        rows,
        table: &table,
        residual: &residual,
    })?;
    Ok(vec![get(ops, &residual, Dtype::F32, rows * width)?])
}

fn norm<O: Ops>(
    ops: &mut O,
    (rows, width): (usize, usize),
    out: Dtype,
    how: NormCase,
) -> Result<Vec<Vec<f32>>, OpsError> {
    let mut random = Random::new(2);
    let residual = put(ops, Dtype::F32, &random.numbers(rows * width, 3.0))?;
    let added = put(ops, Dtype::Bf16, &random.numbers(rows * width, 1.0))?;
    let weight = put(ops, Dtype::F32, &random.scales(width))?;
    let row_scales = put(ops, Dtype::F32, &random.scales(rows))?;
    let column_scales = put(ops, Dtype::F32, &random.scales(width))?;
    let to = Out::new(ops, out, rows, width)?;
    let scaled = matches!(how, NormCase::Scaled);
    let addition = Product {
        values: &added,
        dtype: Dtype::Bf16,
        row_scales: scaled.then_some(&row_scales),
        column_scales: scaled.then_some(&column_scales),
    };
    ops.norm(Norm {
        rows,
        width,
        residual: &residual,
        addition: matches!(how, NormCase::Added | NormCase::Scaled).then_some(addition),
        weight: &weight,
        epsilon: 1e-5,
        out: to.activations(),
    })?;
    Ok(vec![
        to.numbers(ops)?,
        get(ops, &residual, Dtype::F32, rows * width)?,
    ])
}

fn gemm<O: Ops>(
    ops: &mut O,
    (rows, inputs, outputs): (usize, usize, usize),
    (dtype, out): (Dtype, Dtype),
    prepared: Option<usize>,
) -> Result<Vec<Vec<f32>>, OpsError> {
    let mut random = Random::new(3);
    let is_fp8 = dtype == Dtype::Fp8;
    let scales = put(ops, Dtype::F32, &random.scales(rows))?;
    let column_scales = put(ops, Dtype::F32, &random.scales(outputs))?;
    let weight = Weight {
        values: put(ops, dtype, &random.numbers(outputs * inputs, 1.0))?,
        dtype,
        outputs,
        inputs,
        scales: is_fp8.then_some(column_scales),
    };
    let values = put(ops, dtype, &random.numbers(rows * inputs, 1.0))?;
    let to = poisoned(ops, rows * outputs * out.bytes())?;
    if let Some(most) = prepared {
        let values = ops.allocate(most * inputs * dtype.bytes())?;
        let to = ops.allocate(most * outputs * out.bytes())?;
        ops.prepare(Gemm {
            rows: most,
            input: cuda::ops::Activations {
                values: &values,
                dtype,
                scales: is_fp8.then_some(&scales),
            },
            weight: &weight,
            out: &to,
            out_dtype: out,
        })?;
    }
    ops.gemm(Gemm {
        rows,
        input: cuda::ops::Activations {
            values: &values,
            dtype,
            scales: is_fp8.then_some(&scales),
        },
        weight: &weight,
        out: &to,
        out_dtype: out,
    })?;
    Ok(vec![get(ops, &to, out, rows * outputs)?])
}

fn gate<O: Ops>(
    ops: &mut O,
    rows: usize,
    width: usize,
    out: Dtype,
) -> Result<Vec<Vec<f32>>, OpsError> {
    let mut random = Random::new(4);
    let values = put(ops, Dtype::Bf16, &random.numbers(rows * 2 * width, 2.0))?;
    let row_scales = put(ops, Dtype::F32, &random.scales(rows))?;
    let column_scales = put(ops, Dtype::F32, &random.scales(2 * width))?;
    let to = Out::new(ops, out, rows, width)?;
    ops.gate(Gate {
        rows,
        width,
        gate_up: Product {
            values: &values,
            dtype: Dtype::Bf16,
            row_scales: Some(&row_scales),
            column_scales: Some(&column_scales),
        },
        out: to.activations(),
    })?;
    Ok(vec![to.numbers(ops)?])
}

fn fill_random<O: Ops>(ops: &mut O, count: usize, dtype: Dtype) -> Result<Vec<Vec<f32>>, OpsError> {
    let to = poisoned(ops, count * dtype.bytes())?;
    ops.fill_random(FillRandom {
        to: &to,
        dtype,
        count,
        seed: 7,
        deviation: 0.7,
    })?;
    Ok(vec![get(ops, &to, dtype, count)?])
}

/// A step that is run, recorded and replayed, and adds to the residual stream each time.
fn recorded<O: Ops>(ops: &mut O, rows: usize, width: usize) -> Result<Vec<Vec<f32>>, OpsError> {
    let mut random = Random::new(6);
    let residual = put(ops, Dtype::F32, &random.numbers(rows * width, 1.0))?;
    let norm_weight = put(ops, Dtype::F32, &random.scales(width))?;
    let product = put(ops, Dtype::Bf16, &random.numbers(rows * width, 1.0))?;
    let weight = Weight {
        values: put(ops, Dtype::Bf16, &random.numbers(width * width, 0.05))?,
        dtype: Dtype::Bf16,
        outputs: width,
        inputs: width,
        scales: None,
    };
    let to = data::Out::new(ops, Dtype::Bf16, rows, width)?;
    let key = RecordKey {
        rows,
        outputs: rows,
        longest: 1,
    };
    for _ in 0..4 {
        ops.recorded(key, &mut |ops: &mut O| {
            let addition = Product {
                values: &product,
                dtype: Dtype::Bf16,
                row_scales: None,
                column_scales: None,
            };
            ops.norm(Norm {
                rows,
                width,
                residual: &residual,
                addition: Some(addition),
                weight: &norm_weight,
                epsilon: 1e-5,
                out: to.activations(),
            })?;
            ops.gemm(Gemm {
                rows,
                input: to.activations(),
                weight: &weight,
                out: &product,
                out_dtype: Dtype::Bf16,
            })
        })?;
    }
    Ok(vec![get(ops, &residual, Dtype::F32, rows * width)?])
}
