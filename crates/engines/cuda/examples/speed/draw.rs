//! How long a step's tokens take to be drawn.

use cuda::ops::{Draw, DrawRow, Dtype, FillRandom, Ops, OpsError};
use sampling::Pick;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::indices::indices;

pub(crate) const LIKELIEST: Pick = Pick {
    share: 0.5,
    scale: 0.0,
    min_p: 0.0,
    top_p: 1.0,
    top_k: 0,
};
const SAMPLED: Pick = Pick {
    scale: 1.0,
    ..LIKELIEST
};
/// What requests ask for. The last one has to look for its cut among nearly all tokens: random logits are
/// flatter than a model's.
const WAYS: [(&str, Pick); 4] = [
    ("likeliest", LIKELIEST),
    ("temperature", SAMPLED),
    (
        "top_k and top_p",
        Pick {
            top_k: 50,
            top_p: 0.9,
            ..SAMPLED
        },
    ),
    (
        "top_p",
        Pick {
            top_p: 0.9,
            ..SAMPLED
        },
    ),
];

/// So many rows drawn in one way, each at a place of its own.
pub(crate) fn rows<O: Ops>(ops: &mut O, count: usize, pick: Pick) -> Result<O::Buffer, OpsError> {
    let mut words = Vec::new();
    for row in 0..count {
        let share = (row as f64 + 0.5) / count as f64;
        let row = DrawRow::new(Pick { share, ..pick }, &[]);
        row.unwrap_or(DrawRow::NOTHING).encode(&mut words);
    }
    indices(ops, &words)
}

/// A line for each way to draw.
pub(crate) fn measure<O: Ops>(
    ops: &mut O,
    vocabulary: usize,
    batch: usize,
    repeats: u32,
) -> Result<Vec<Value>, OpsError> {
    let logits = ops.allocate(batch * vocabulary * 4)?;
    let tokens = ops.allocate(batch * 4)?;
    ops.fill_random(FillRandom {
        to: &logits,
        dtype: Dtype::F32,
        count: batch * vocabulary,
        seed: 3,
        deviation: 2.0,
    })?;
    let mut lines = Vec::new();
    for (name, pick) in WAYS {
        let draws = rows(ops, batch, pick)?;
        let draw = Draw {
            rows: batch,
            vocabulary,
            logits: &logits,
            draws: &draws,
            tokens: &tokens,
        };
        let mut drawn = [0; 4];
        ops.draw(draw)?;
        ops.read(&tokens, 0, &mut drawn)?;
        let begun = Instant::now();
        for _ in 0..repeats {
            ops.draw(draw)?;
        }
        ops.read(&tokens, 0, &mut drawn)?;
        let took = begun.elapsed().as_secs_f64() * 1e6 / f64::from(repeats);
        lines.push(json!({ "draw": name, "batch": batch, "vocabulary": vocabulary, "us": took }));
    }
    Ok(lines)
}
