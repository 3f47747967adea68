//! SmolLM2's text, against transformers on the same weights.
//!
//! The weights are not in the repository; `cargo xtask test --only model` fetches them.

use serde::Deserialize;

use crate::{best, golden, load, logits, small};

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    prompt: Vec<u32>,
    greedy: Vec<u32>,
    /// Between the best two logits of each step.
    margins: Vec<f32>,
}

/// Two ways to sum differ by this much at most; a smaller margin is a tie.
const TIE: f32 = 2e-3;

#[test]
#[ignore = "needs SmolLM2: cargo xtask test --only model"]
#[expect(clippy::disallowed_methods, reason = "the step says where it is")]
fn texts_are_those_of_transformers() {
    let path = std::env::var("SMOLLM2").expect("SMOLLM2 names the GGUF file");
    let text = std::fs::read_to_string(golden("smollm2.json")).unwrap();
    let expected: Golden = serde_json::from_str(&text).unwrap();
    let mut model = load(
        path.as_ref(),
        llama::ModelOptions {
            context: 1024,
            step_tokens: 1024,
            ..small(32)
        },
    );
    let blocks: Vec<u32> = (0..32).collect();
    let (mut same, mut ties) = (0, 0);
    for (number, case) in expected.cases.iter().enumerate() {
        // All at once: the tokens that transformers said, and what follows each of them here.
        let mut tokens = case.prompt.clone();
        tokens.extend(&case.greedy[..case.greedy.len() - 1]);
        let found = logits(&mut model, &tokens, &blocks, 256);
        for (step, token) in case.greedy.iter().enumerate() {
            let here = &found[case.prompt.len() - 1 + step];
            if best(here) == *token {
                same += 1;
                continue;
            }
            ties += 1;
            let (margin, behind) = (
                case.margins[step],
                here[best(here) as usize] - here[*token as usize],
            );
            println!(
                "case {number}, token {step}: another one is ahead by {behind}, there it was behind by {margin}"
            );
            assert!(margin < TIE && behind < TIE, "no tie");
        }
    }
    println!(
        "{same} tokens of {} are the same, {ties} are ties",
        same + ties
    );
    assert_eq!(same + ties, 20 * 64);
}
