//! What constrained output costs: steps of eight sequences with and without a grammar, by turns.
//!
//! `cargo run --release -p llama --example constrained -- MODEL [THREADS]`
//!
//! The grammar is a list of records that never ends: strings, numbers, words from a list and the
//! punctuation between them. Both sides draw with temperature 1; only the masks differ.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool for the terminal"
)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use checkpoint::Checkpoint;
use contract::{
    Clock, GenerateRequest, Grammar, HashSeed, OutputLimits, RequestId, Sampling, TokenId,
};
use grammar::{SlotMatchers, Vocabulary};
use llama::{Isa, LoadedWeights, Model, ModelOptions, Plan};
use preprocess::{PreprocessConfig, Preprocessor};
use sampling::{RequestContext, Sampler};

const BATCH: usize = 8;
const STEPS: usize = 128;
const BLOCK: usize = 32;
const ROUNDS: usize = 7;

const RECORDS: &str = r#"{
    "type": "array", "minItems": 10000, "items": {
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 30 },
            "age": { "type": "integer", "minimum": 0, "maximum": 120 },
            "kind": { "enum": ["person", "animal", "building"] },
            "note": { "type": "string" }
        },
        "required": ["name", "age", "kind", "note"],
        "additionalProperties": false
    }
}"#;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("the path of a model");
    let threads = arguments.next().map_or(2, |text| text.parse().unwrap());
    let checkpoint = Checkpoint::open(path.as_ref()).unwrap();
    let weights = LoadedWeights::load(&checkpoint, &mut |_| ()).unwrap();
    let options = ModelOptions {
        block_size: BLOCK,
        blocks: BATCH * 1024 / BLOCK,
        step_tokens: 512,
        outputs: 16,
        context: 1024,
        threads,
        isa: Isa::detect(),
        taps: Vec::new(),
    };
    let mut model = Model::new(&weights, options).unwrap();
    let vocabulary = vocabulary(&checkpoint, path.as_ref());
    let clock = Clock::start();
    let built = clock.now();
    let records = Grammar::JsonSchema(RECORDS.into());
    vocabulary.compile(&records).unwrap();
    let compiled = clock.now();
    vocabulary.compile(&records).unwrap();
    println!(
        "vocabulary and grammar {:.0} ms, the grammar again {:.3} ms",
        milliseconds(compiled - built),
        milliseconds(clock.now() - compiled),
    );
    let mut sides = [Vec::new(), Vec::new()];
    let mut masks = Duration::ZERO;
    for round in 0..ROUNDS {
        for side in [round % 2, 1 - round % 2] {
            let grammar = (side == 1).then(|| records.clone());
            let run = decode(&mut model, &clock, &vocabulary, grammar);
            sides[side].push((STEPS * BATCH) as f64 / run.total.as_secs_f64());
            masks += run.masks;
        }
    }
    let ratios: Vec<f64> = sides[0]
        .iter()
        .zip(&sides[1])
        .map(|(free, held)| held / free)
        .collect();
    let [free, held] = sides;
    println!(
        "tokens/s at batch {BATCH}, median of {ROUNDS} turns: free {:.0}, constrained {:.0}, ratio {:.3}; \
         masks {:.0} us per token",
        median(free),
        median(held),
        median(ratios),
        masks.as_secs_f64() * 1e6 / (ROUNDS * STEPS * BATCH) as f64,
    );
}

fn vocabulary(checkpoint: &Checkpoint, path: &Path) -> Arc<Vocabulary> {
    let text = checkpoint.tokenizer().unwrap().unwrap();
    let from = preprocess::Vocabulary {
        tokenizer_json: &text.tokenizer_json,
        chat_template: text.chat_template.as_deref(),
        bos: text.bos.as_deref(),
        add_bos: text.add_bos,
        eos: &text.eos,
    };
    let config = PreprocessConfig::default();
    let preprocessor = Preprocessor::from_vocabulary(path, &from, config).unwrap();
    Arc::new(preprocessor.grammar_vocabulary())
}

struct Run {
    total: Duration,
    masks: Duration,
}

fn decode(
    model: &mut Model,
    clock: &Clock,
    vocabulary: &Arc<Vocabulary>,
    grammar: Option<Grammar>,
) -> Run {
    let prompt: Arc<[TokenId]> = Arc::new([1, 2, 3, 4]);
    let requests: Vec<GenerateRequest> = (0..BATCH)
        .map(|number| GenerateRequest {
            id: RequestId::new("r"),
            nonce: number as u64,
            trace: None,
            prompt: Arc::clone(&prompt),
            answered: Arc::default(),
            hash_seed: HashSeed::BASE,
            limits: OutputLimits {
                max_tokens: 1000,
                min_tokens: 0,
                ignore_eos: false,
                eos_tokens: Arc::default(),
            },
            sampling: Sampling::default(),
            logprobs: None,
            grammar: grammar.clone(),
        })
        .collect();
    let mut matchers = SlotMatchers::new(Some(Arc::clone(vocabulary)));
    let mut sampler = Sampler::default();
    let mut texts: Vec<Vec<TokenId>> = vec![prompt.to_vec(); BATCH];
    let mut plan = Plan::new(BLOCK);
    let mut masks = Duration::ZERO;
    let began = clock.now();
    for step in 0..STEPS {
        plan.clear();
        for (sequence, text) in texts.iter().enumerate() {
            let start = if step == 0 { 0 } else { text.len() - 1 };
            let blocks = (sequence * 32) as u32..(sequence * 32 + 32) as u32;
            plan.push(text[start..].iter().copied(), start, blocks, 1);
        }
        model.forward(&plan);
        for (sequence, (request, text)) in requests.iter().zip(&mut texts).enumerate() {
            let context = RequestContext::new(request, text);
            let asked = clock.now();
            let mut follower = matchers
                .follow(sequence, sequence as u64, request, context.answer())
                .unwrap();
            let mask = follower.as_mut().map(|one| one.matcher().mask().unwrap());
            masks += clock.now() - asked;
            let token = sampler
                .draw(model.logits(sequence), context.draw(&[], mask.as_ref()))
                .unwrap();
            if let Some(follower) = &mut follower {
                follower.consume(token).unwrap();
            }
            text.push(token);
        }
    }
    Run {
        total: clock.now() - began,
        masks,
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
