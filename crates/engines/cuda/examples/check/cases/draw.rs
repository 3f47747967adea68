//! Drawing tokens: from random distributions, equal logits among them, in steps whose rows differ.
//!
//! Sums of weights are rounded in another way on the device than on the twin. A token that is not the
//! twin's is right where it is the twin's too for a place or a cut that is a billionth further.

use cuda::ops::{Draw, DrawRow, Dtype, Ops, OpsError};
use sampling::{Pick, Sampler, forbid};
use serde_json::{Value, json};

use crate::data::{Random, poisoned, put, put_indices};

/// How much further a place or a cut may be: no more, and for tokens between less too.
const NEAR: [f64; 6] = [1e-9, 1e-10, 1e-11, 1e-12, 1e-13, 1e-14];

/// How logits are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Logits {
    /// As a model's: few tokens have nearly all weight.
    Spread,
    /// Nearly all tokens have some.
    Flat,
    /// Of few values.
    Equal,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DrawCase {
    rows: usize,
    vocabulary: usize,
    logits: Logits,
    temperature: f64,
    top_k: u32,
    top_p: f32,
    min_p: f64,
}

pub(crate) fn draws() -> Vec<DrawCase> {
    let mut cases = Vec::new();
    for (rows, vocabulary) in [1, 64]
        .map(|rows| [100, 4099, 49152, 128_256].map(|of| (rows, of)))
        .concat()
    {
        for logits in [Logits::Spread, Logits::Flat, Logits::Equal] {
            for (temperature, top_k, top_p, min_p) in [
                (0.0, 0, 1.0, 0.0),
                (0.3, 0, 1.0, 0.0),
                (1.0, 0, 1.0, 0.0),
                (2.0, 0, 1.0, 0.0),
                (1.0, 1, 1.0, 0.0),
                (1.0, 50, 1.0, 0.0),
                (1.0, 1000, 1.0, 0.0),
                (1.0, 3000, 0.9, 0.0),
                (1.0, 0, 0.1, 0.0),
                (1.0, 0, 0.9, 0.0),
                (2.0, 0, 0.999, 0.0),
                (1.0, 0, 1.0, 0.05),
                (0.8, 50, 0.9, 0.01),
            ] {
                cases.push(DrawCase {
                    rows,
                    vocabulary,
                    logits,
                    temperature,
                    top_k,
                    top_p,
                    min_p,
                });
            }
        }
    }
    cases
}

impl DrawCase {
    /// Logits, and how each row is drawn. With several rows, some have forbidden tokens, one has what is no
    /// number, nothing is drawn of one, and one takes the likeliest.
    fn inputs(&self) -> (Vec<f32>, Vec<DrawRow>) {
        let mut random = Random::new(5);
        let deviation = match self.logits {
            Logits::Spread => 4.0,
            Logits::Flat | Logits::Equal => 0.5,
        };
        let mut logits = random.numbers(self.rows * self.vocabulary, deviation);
        if self.logits == Logits::Equal {
            logits.iter_mut().for_each(|logit| *logit = logit.round());
        }
        let mut draws = Vec::new();
        for (index, row) in logits.chunks_exact_mut(self.vocabulary).enumerate() {
            let scale = match self.temperature > 0.0 && index != 5 {
                true => 1.0 / self.temperature,
                false => 0.0,
            };
            let pick = Pick {
                share: f64::from(random.share()),
                scale,
                min_p: self.min_p,
                top_p: f64::from(self.top_p),
                top_k: self.top_k,
            };
            let likeliest = sampling::likeliest(row) as u32;
            let other = random.below(self.vocabulary) as u32;
            let forbidden = match index % 4 {
                1 => &[likeliest, u32::MAX - 1, other][..],
                _ => &[],
            };
            draws.push(match index {
                3 => DrawRow::NOTHING,
                _ => DrawRow::new(pick, forbidden).unwrap_or(DrawRow::NOTHING),
            });
            if index == 2 {
                row[77] = f32::NAN;
            }
        }
        (logits, draws)
    }

    pub(crate) fn run<O: Ops>(&self, ops: &mut O) -> Result<Vec<Vec<f32>>, OpsError> {
        let (logits, draws) = self.inputs();
        let mut words = Vec::new();
        draws.iter().for_each(|draw| draw.encode(&mut words));
        let logits = put(ops, Dtype::F32, &logits)?;
        let draws = put_indices(ops, &words)?;
        let tokens = poisoned(ops, self.rows * 4)?;
        ops.draw(Draw {
            rows: self.rows,
            vocabulary: self.vocabulary,
            logits: &logits,
            draws: &draws,
            tokens: &tokens,
        })?;
        let mut bytes = vec![0; self.rows * 4];
        ops.read(&tokens, 0, &mut bytes)?;
        let numbers = bytes.as_chunks::<4>().0.iter().copied();
        Ok(vec![
            numbers
                .map(|bytes| u32::from_le_bytes(bytes) as f32)
                .collect(),
        ])
    }

    /// How many tokens are not the twin's, and how many of those are wrong.
    pub(crate) fn compare(&self, results: &[Vec<f32>], expected: &[Vec<f32>]) -> Value {
        let (logits, draws) = self.inputs();
        let pairs = results.iter().flatten().zip(expected.iter().flatten());
        let rows = logits.chunks_exact(self.vocabulary).zip(draws);
        let (mut differ, mut wrong) = (0, 0);
        for ((found, expected), (row, draw)) in pairs.zip(rows) {
            if found != expected {
                differ += 1;
                wrong += usize::from(!is_near(*found, row.to_vec(), draw));
            }
        }
        json!({ "ok": wrong == 0, "tokens": self.rows, "differ": differ, "wrong": wrong })
    }
}

/// Whether a token is that of a draw nearly the same.
fn is_near(found: f32, mut logits: Vec<f32>, draw: DrawRow) -> bool {
    let Some(pick) = draw.pick() else {
        return false;
    };
    forbid(&mut logits, draw.forbidden());
    let mut sampler = Sampler::default();
    let steps = || NEAR.into_iter().flat_map(|step| [step, -step]);
    let by_share = steps().map(|step| Pick {
        share: (pick.share + step).clamp(0.0, 1.0),
        ..pick
    });
    let by_cut = steps().map(|step| Pick {
        top_p: pick.top_p + step,
        ..pick
    });
    let mut nearly = by_share.chain(by_cut.filter(|_| pick.top_p < 1.0));
    nearly.any(|pick| {
        sampler
            .pick(&logits, pick)
            .is_ok_and(|token| token as f32 == found)
    })
}
