//! Logits and texts that transformers computed with the same weights.

use cuda::Storage;
use cuda::weights::CacheDtype;
use serde::Deserialize;

use crate::{MODELS, golden, load, logits, small};

#[derive(Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
    positions: Vec<usize>,
    logits: Vec<Vec<f32>>,
}

fn read(name: &str) -> Golden {
    let text = std::fs::read_to_string(golden(name).join("golden.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The largest difference, of the largest logit of its row.
fn worst(expected: &Golden, found: &[Vec<f32>]) -> f32 {
    let rows = expected.positions.iter().zip(&expected.logits);
    let errors = rows.flat_map(|(position, row)| {
        let size = row.iter().fold(0.0f32, |size, logit| size.max(logit.abs()));
        let pairs = found[*position].iter().zip(row);
        pairs.map(move |(one, other)| (one - other).abs() / size)
    });
    errors.fold(0.0, f32::max)
}

#[test]
fn the_exact_twin_has_the_logits_and_texts_of_transformers() {
    for name in MODELS {
        let expected = read(name);
        let mut model = load(name, Storage::Exact, small(8));
        let found = logits(&mut model, &expected.prompt, &[3, 7, 1, 4], 256);
        let worst = worst(&expected, &found);
        println!("{name}: off by at most {worst:e} of the largest logit");
        assert!(worst < 1e-4, "{name}: {worst}");
        let mut tokens = expected.prompt.clone();
        for token in &expected.greedy {
            let found = logits(&mut model, &tokens, &[3, 7, 1, 4], 256);
            tokens.push(sampling::likeliest(found.last().unwrap()) as u32);
            assert_eq!(tokens.last(), Some(token), "{name}");
        }
    }
}

/// The root mean square of differences, of that of the logits.
fn deviation(expected: &Golden, found: &[Vec<f32>]) -> f64 {
    let (mut errors, mut sizes) = (0.0, 0.0);
    for (position, row) in expected.positions.iter().zip(&expected.logits) {
        for (one, other) in found[*position].iter().zip(row) {
            errors += f64::from(one - other).powi(2);
            sizes += f64::from(*other).powi(2);
        }
    }
    f64::sqrt(errors / sizes)
}

/// Weights of these models are random and large, and rows are short: they make of a rounding six to
/// eight times as much. Trained models do not, so this says little of FP8's worth; it is here to notice
/// a rounding that was not there before.
#[test]
fn what_a_device_stores_is_near_the_logits_of_transformers() {
    for (storage, most) in [
        (
            Storage::Bf16 {
                cache: CacheDtype::Bf16,
            },
            0.03,
        ),
        (
            Storage::Bf16 {
                cache: CacheDtype::Fp8,
            },
            0.2,
        ),
        (
            Storage::Fp8 {
                cache: CacheDtype::Bf16,
            },
            0.35,
        ),
    ] {
        for name in MODELS {
            let expected = read(name);
            let mut model = load(name, storage, small(8));
            let found = logits(&mut model, &expected.prompt, &[3, 7, 1, 4], 256);
            let (deviation, worst) = (deviation(&expected, &found), worst(&expected, &found));
            println!("{name}, {storage:?}: {deviation:.4}, {worst:.4} of the largest logit");
            assert!(deviation < most, "{name}, {storage:?}: {deviation}");
        }
    }
}
