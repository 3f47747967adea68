//! Weights of FP8 against the same numbers in F32.

use crate::fp8_folder::{Scheme, write};
use crate::{best, golden, load, logits, small};

/// Of the largest logit.
const TOLERANCE: f32 = 1e-4;

#[test]
fn logits_of_fp8_are_those_of_what_its_numbers_stand_for() {
    let prompt: Vec<u32> = (0..40).map(|at| at * 37 % 120).collect();
    let blocks: Vec<u32> = (0..2).collect();
    for name in ["llama-gqa", "qwen2"] {
        for scheme in Scheme::ALL {
            let folders = write(&golden(name), scheme, "cpu");
            let mut fp8 = load(&folders.fp8, small(32));
            let mut plain = load(&folders.plain, small(32));
            let found = logits(&mut fp8, &prompt, &blocks, 256);
            let expected = logits(&mut plain, &prompt, &blocks, 256);
            let mut worst = 0.0f32;
            for (found, expected) in found.iter().zip(&expected) {
                let size = expected
                    .iter()
                    .fold(0.0f32, |size, logit| size.max(logit.abs()));
                for (one, other) in found.iter().zip(expected) {
                    worst = worst.max((one - other).abs() / size);
                }
                assert_eq!(best(found), best(expected), "{name}, {scheme:?}");
            }
            println!("{name}, {scheme:?}: off by at most {worst:e} of the largest logit");
            assert!(worst < TOLERANCE, "{name}, {scheme:?}: {worst}");
        }
    }
}
