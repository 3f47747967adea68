//! What is put by is seen as if at once.

use contract::TokenId;
use engine::executor::SequenceId;
use smallvec::smallvec;

use super::EagleDrafter;
use crate::eagle3::LoadedHead;
use crate::executor::{DraftSource, ExecutorOptions, RowInput, StepInput};
use crate::kernels::Isa;
use crate::model::{LoadedWeights, Model, ModelOptions};
use crate::plan::Plan;
use checkpoint::Checkpoint;
use checkpoint::HeadFiles;

const BLOCK: usize = 4;

/// A target and a head that follows it.
struct Pair {
    target: Model,
    drafter: EagleDrafter,
}

impl Pair {
    fn new() -> Self {
        let folder = |name| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/").to_owned() + name;
        let target = Checkpoint::open(folder("llama-gqa").as_ref()).unwrap();
        let weights = LoadedWeights::load(&target, &mut |_| ()).unwrap();
        let head = HeadFiles::open(folder("eagle3-shared").as_ref()).unwrap();
        let head = LoadedHead::load(&head, weights.config()).unwrap();
        let options = ExecutorOptions {
            slots: 1,
            model: ModelOptions {
                block_size: BLOCK,
                blocks: 16,
                step_tokens: 32,
                outputs: 8,
                context: 64,
                threads: 1,
                isa: Isa::detect(),
                taps: head.taps().to_vec(),
            },
            speculation: DraftSource::None,
            drafts: 4,
            adapts: true,
            vocabulary: None,
        };
        Self {
            drafter: EagleDrafter::new(&head, &options).unwrap(),
            target: Model::new(&weights, options.model).unwrap(),
        }
    }

    /// Computes `count` tokens from `start` on, and hears the next of `text`.
    fn step(&mut self, text: &[TokenId], start: usize, count: usize) {
        let mut plan = Plan::new(BLOCK);
        let new = &text[start..start + count];
        plan.push(new.iter().copied(), start, 0..16, 1);
        self.target.forward(&plan);
        let input = input(text, start, count);
        let said = [smallvec![text[start + count]]];
        self.drafter.heard(&input, &said, &self.target, &plan);
    }

    /// Guesses of what follows the token at `start`.
    fn guesses(&mut self, text: &[TokenId], start: usize) -> Vec<TokenId> {
        let mut drafts = [Vec::new()];
        let input = input(text, start, 1);
        self.drafter.draft(&input, &self.target, &mut drafts);
        drafts.into_iter().flatten().collect()
    }
}

fn input(text: &[TokenId], start: usize, count: usize) -> StepInput {
    StepInput {
        tokens: text[..start + count].to_vec(),
        blocks: (0..16).collect(),
        rows: vec![RowInput {
            sequence: SequenceId(7),
            slot: 0,
            first: 0,
            length: start + count,
            known_from: 0,
            next: 0,
            start,
            count,
            drafts: 3,
            first_block: 0,
            block_count: 16,
            request: None,
        }],
    }
}

#[test]
fn what_was_put_by_is_seen_as_if_at_once() {
    let text: Vec<TokenId> = (0..40).map(|place| place * 29 % 120).collect();
    for decoded in 1..11 {
        let mut at_once = Pair::new();
        at_once.step(&text, 0, 6 + decoded);
        let mut one_by_one = Pair::new();
        one_by_one.step(&text, 0, 6);
        for start in 6..6 + decoded {
            one_by_one.step(&text, start, 1);
        }
        let expected = at_once.guesses(&text, 6 + decoded);
        assert_eq!(expected.len(), 3);
        assert_eq!(
            one_by_one.guesses(&text, 6 + decoded),
            expected,
            "{decoded} tokens after the prompt"
        );
    }
}

#[test]
fn a_full_block_is_seen_and_what_follows_it_waits() {
    let text: Vec<TokenId> = (0..40).map(|place| place * 29 % 120).collect();
    let mut pair = Pair::new();
    pair.step(&text, 0, 6);
    let mut waiting = Vec::new();
    for start in 6..13 {
        pair.step(&text, start, 1);
        let seat = pair.drafter.seats[0].as_ref().unwrap();
        assert_eq!(seat.seen + seat.put_by.follow.len(), start + 1);
        waiting.push(seat.put_by.follow.len());
    }
    assert_eq!(waiting, [1, 0, 1, 2, 3, 0, 1], "blocks end at 8 and 12");
}
