//! Heads against the reference of `tools/golden`.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use checkpoint::{Checkpoint, HeadFiles};

use super::{Head, LoadedHead, States};
use crate::kernels::Isa;
use crate::model::{LoadedWeights, Model, ModelOptions};
use crate::plan::Plan;

#[derive(Deserialize)]
struct Golden {
    prompt: Vec<u32>,
    next_token: u32,
    first_pass_positions: Vec<usize>,
    first_pass_logits: Vec<Vec<f32>>,
    chain: Vec<u32>,
    chain_logits: Vec<Vec<f32>>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn options(taps: Vec<usize>) -> ModelOptions {
    ModelOptions {
        block_size: 16,
        blocks: 16,
        step_tokens: 128,
        outputs: 128,
        context: 200,
        threads: 2,
        isa: Isa::detect(),
        taps,
    }
}

fn off(found: &[f32], expected: &[f32]) -> f32 {
    let size = expected
        .iter()
        .fold(0.0f32, |size, logit| size.max(logit.abs()));
    let pairs = found.iter().zip(expected);
    pairs.fold(0.0f32, |worst, (one, other)| {
        worst.max((one - other).abs() / size)
    })
}

#[test]
fn heads_draft_what_the_reference_drafts() {
    for name in ["eagle3-shared", "eagle3-own", "eagle3-speculators"] {
        let text = std::fs::read_to_string(folder(name).join("golden.json")).unwrap();
        let golden: Golden = serde_json::from_str(&text).unwrap();
        let checkpoint = Checkpoint::open(&folder("llama-gqa")).unwrap();
        let weights = LoadedWeights::load(&checkpoint, &mut |_| ()).unwrap();
        let files = HeadFiles::open(&folder(name)).unwrap();
        let options = options(files.taps(weights.config()));
        let mut target = Model::new(&weights, options.clone()).unwrap();
        let mut head = Head::new(
            &LoadedHead::load(&files, weights.config()).unwrap(),
            &options,
        )
        .unwrap();
        let blocks = || [5, 3, 9, 1];
        let length = golden.prompt.len();
        let mut plan = Plan::new(16);
        plan.push(golden.prompt.iter().copied(), 0, blocks(), 1);
        target.forward(&plan);
        // The same positions, with the tokens that follow them, in two pieces.
        let follow: Vec<u32> = golden.prompt[1..]
            .iter()
            .copied()
            .chain([golden.next_token])
            .collect();
        let mut found = Vec::new();
        for piece in [0..25, 25..length] {
            plan.clear();
            let tokens = follow[piece.clone()].iter().copied();
            plan.push(tokens, piece.start, blocks(), piece.len());
            let tap = |tap: usize, index: usize| target.tapped(tap, piece.start + index);
            head.pass(&plan, &States::Target(&tap), target.embeddings());
            found.extend((0..piece.len()).map(|output| head.logits(output).to_vec()));
        }
        for (position, expected) in golden
            .first_pass_positions
            .iter()
            .zip(&golden.first_pass_logits)
        {
            let worst = off(&found[*position], expected);
            assert!(worst < 1e-4, "{name}, position {position}: {worst}");
        }
        let mut state = head.outputs(1).unwrap();
        let last = length - 25 - 1;
        let mut drafted = vec![head.best(last)];
        state.set(0, head.state(last));
        for step in 1..golden.chain.len() {
            plan.clear();
            plan.push([drafted[step - 1]], length - 1 + step, blocks(), 1);
            head.pass(&plan, &States::Own(&state), target.embeddings());
            let worst = off(head.logits(0), &golden.chain_logits[step]);
            assert!(worst < 1e-4, "{name}, step {step}: {worst}");
            drafted.push(head.best(0));
            state.set(0, head.state(0));
        }
        assert_eq!(drafted, golden.chain, "{name}");
    }
}

#[test]
fn a_head_of_another_model_is_refused() {
    let files = HeadFiles::open(&folder("eagle3-own")).unwrap();
    let other = Checkpoint::open(&folder("qwen2")).unwrap();
    let refused = LoadedHead::load(&files, other.config())
        .unwrap_err()
        .to_string();
    println!("{refused}");
    assert!(
        refused.contains("taps") || refused.contains("width"),
        "{refused}"
    );
}
