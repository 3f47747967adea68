//! Logits and texts that transformers computed with the same weights.

use serde::Deserialize;

use crate::{best, golden, load, logits, small};

#[derive(Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
    positions: Vec<usize>,
    logits: Vec<Vec<f32>>,
}

/// Of the largest logit.
const TOLERANCE: f32 = 1e-4;

#[test]
fn logits_are_those_of_transformers() {
    for name in ["llama-gqa", "llama-rope-scaled", "llama-head-dim", "qwen2"] {
        let folder = golden(name);
        let text = std::fs::read_to_string(folder.join("golden.json")).unwrap();
        let expected: Golden = serde_json::from_str(&text).unwrap();
        let mut model = load(&folder, small(32));
        let blocks: Vec<u32> = (0..4).collect();
        let found = logits(&mut model, &expected.prompt, &blocks, 256);
        let mut worst = 0.0f32;
        for (position, row) in expected.positions.iter().zip(&expected.logits) {
            let size = row.iter().fold(0.0f32, |size, logit| size.max(logit.abs()));
            for (one, other) in found[*position].iter().zip(row) {
                worst = worst.max((one - other).abs() / size);
            }
        }
        println!("{name}: off by at most {worst:e} of the largest logit");
        assert!(worst < TOLERANCE, "{name}: {worst}");
        let mut tokens = expected.prompt.clone();
        for token in &expected.greedy {
            let found = logits(&mut model, &tokens, &blocks, 256);
            tokens.push(best(found.last().unwrap()));
            assert_eq!(tokens.last(), Some(token), "{name}");
        }
    }
}
