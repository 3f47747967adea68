//! SmolLM2's text, against transformers on the same weights.

use checkpoint::Checkpoint;
use llama::{Isa, LoadedWeights, Model, ModelOptions, Plan};
use serde::Deserialize;

use super::model;

const GOLDEN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../engines/llama/tests/golden/smollm2.json"
);

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
const CONTEXT: usize = 1024;
const BLOCK: usize = 32;

fn load() -> Model {
    let checkpoint = Checkpoint::open(model().as_ref()).expect("it is a model");
    let weights = LoadedWeights::load(&checkpoint, &mut |_| ()).expect("its weights are sound");
    let options = ModelOptions {
        block_size: BLOCK,
        blocks: CONTEXT / BLOCK,
        step_tokens: CONTEXT,
        outputs: CONTEXT,
        context: CONTEXT,
        threads: 2,
        isa: Isa::detect(),
        taps: Vec::new(),
    };
    Model::new(&weights, options).expect("there is memory")
}

fn best(logits: &[f32]) -> u32 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let place = logits.iter().position(|logit| *logit == largest);
    place.expect("one is the largest") as u32
}

#[test]
#[ignore = "needs SmolLM2: cargo xtask test --only model"]
fn texts_are_those_of_transformers() {
    let text = std::fs::read_to_string(GOLDEN).expect("golden values are there");
    let expected: Golden = serde_json::from_str(&text).expect("they are readable");
    let mut model = load();
    let mut plan = Plan::new(BLOCK);
    let (mut same, mut ties) = (0, 0);
    for (number, case) in expected.cases.iter().enumerate() {
        // All at once: the tokens that transformers said, and what follows each of them here.
        plan.clear();
        let said = &case.greedy[..case.greedy.len() - 1];
        let tokens = case.prompt.iter().chain(said).copied();
        plan.push(tokens, 0, 0..(CONTEXT / BLOCK) as u32, case.greedy.len());
        model.forward(&plan);
        for (step, token) in case.greedy.iter().enumerate() {
            let here = model.logits(step);
            let found = best(here);
            if found == *token {
                same += 1;
                continue;
            }
            ties += 1;
            let (there, behind) = (
                case.margins[step],
                here[found as usize] - here[*token as usize],
            );
            println!("case {number}, token {step}: ahead by {behind}, there behind by {there}");
            assert!(there < TIE && behind < TIE, "no tie");
        }
    }
    println!(
        "{same} tokens of {} are the same, {ties} are ties",
        same + ties
    );
    assert_eq!(same + ties, 20 * 64);
}
