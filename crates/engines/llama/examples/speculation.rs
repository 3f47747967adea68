//! What guessing brings on a real model: acceptance, tokens a step, and that nothing changes.
//!
//! `cargo run --release -p llama --example speculation -- MODEL PROMPTS.json [OPTION VALUE]...`
//!
//! | option | |
//! |---|---|
//! | `--draft MODEL` | a second model guesses too |
//! | `--head FOLDER` | an EAGLE-3 head guesses too |
//! | `--fixed K` | always K guesses, whether they pay or not: what each place of a draft is worth |
//! | `--tokens N` | of an answer, 96 by default |
//! | `--only METHOD` | none of the others; nothing to compare the text with |
//!
//! PROMPTS.json has `texts`, as the files of `benches/speculation`, or `cases` with the tokens of a
//! `prompt` and perhaps a `greedy` answer, as long as which the model's own is; such are
//! `crates/llama/tests/golden/smollm2.json` and the `held-out.json` that `tools/eagle3` writes.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool for the terminal"
)]

use std::path::Path;
use std::sync::Arc;

use checkpoint::{Checkpoint, HeadFiles};
use contract::{
    Clock, GenerateRequest, HashSeed, OutputLimits, RequestId, Sampling, TokenId, WorkerId,
    WorkerStatus, token_stream,
};
use engine::{Executor as _, Scheduler, Submission};
use llama::{
    DraftSource, ExecutorOptions, Isa, LlamaExecutor, LoadedHead, LoadedWeights, ModelOptions,
};
use serde_json::Value;

const ANSWER: usize = 96;
const DRAFTS: usize = 5;

/// A prompt and how long its answer is.
type Case = (Vec<TokenId>, usize);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, prompts] = [&arguments[0], &arguments[1]];
    let option = |name: &str| {
        let place = arguments.iter().position(|word| word == name)?;
        Some(arguments[place + 1].clone())
    };
    let number = |name: &str| Some(option(name)?.parse::<usize>().unwrap());
    let checkpoint = Checkpoint::open(model.as_ref()).unwrap();
    let weights = load(model.as_ref());
    let cases = cases(
        &checkpoint,
        prompts.as_ref(),
        number("--tokens").unwrap_or(ANSWER),
    );
    let mut sources = vec![DraftSource::None, DraftSource::Ngram];
    if let Some(head) = option("--head") {
        let head = HeadFiles::open(head.as_ref()).unwrap();
        sources.push(DraftSource::Eagle3(
            LoadedHead::load(&head, weights.config()).unwrap(),
        ));
    }
    if let Some(draft) = option("--draft") {
        sources.push(DraftSource::Model(load(draft.as_ref())));
    }
    if let Some(only) = option("--only") {
        sources.retain(|source| source.as_str() == only);
    }
    let mut plain: Option<Vec<Vec<TokenId>>> = None;
    for source in sources {
        let name = source.as_str();
        let said = answer(&weights, source, number("--fixed"), &cases);
        match &plain {
            Some(plain) => println!("{name}: the same text: {}", plain == &said),
            None => plain = Some(said),
        }
    }
}

fn cases(checkpoint: &Checkpoint, path: &Path, tokens: usize) -> Vec<Case> {
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    if let Some(texts) = file["texts"].as_array() {
        let json = checkpoint.tokenizer().unwrap().unwrap().tokenizer_json;
        let tokenizer = tokenizers::Tokenizer::from_bytes(json).unwrap();
        let ids = |text: &Value| {
            let encoded = tokenizer.encode(text.as_str().unwrap(), false).unwrap();
            (encoded.get_ids().to_vec(), tokens)
        };
        return texts.iter().map(ids).collect();
    }
    let ids = |case: &Value| {
        let length = case["greedy"].as_array().map_or(tokens, Vec::len);
        let prompt = serde_json::from_value(case["prompt"].clone()).unwrap();
        (prompt, length.min(tokens))
    };
    file["cases"].as_array().unwrap().iter().map(ids).collect()
}

fn load(path: &Path) -> LoadedWeights {
    LoadedWeights::load(&Checkpoint::open(path).unwrap(), &mut |_| ()).unwrap()
}

/// Answers all prompts one after the other.
fn answer(
    weights: &LoadedWeights,
    source: DraftSource,
    fixed: Option<usize>,
    cases: &[Case],
) -> Vec<Vec<TokenId>> {
    let name = source.as_str();
    let options = ExecutorOptions {
        slots: 1,
        model: ModelOptions {
            block_size: 32,
            blocks: 64,
            step_tokens: 512,
            outputs: 16,
            context: 2048,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            isa: Isa::detect(),
            taps: Vec::new(),
        },
        speculation: source,
        drafts: fixed.unwrap_or(DRAFTS),
        adapts: fixed.is_none(),
        vocabulary: None,
    };
    let mut executor = LlamaExecutor::new(weights, options).unwrap();
    let mut scheduler = Scheduler::new(WorkerId(0), executor.limits());
    let clock = Clock::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let began = clock.now();
    let mut said = Vec::new();
    for case in cases {
        let (sender, mut stream) = token_stream(WorkerId(0));
        let submission = Submission {
            request: request(case),
            sender,
            arrival: clock.now(),
        };
        scheduler.submit(submission).unwrap();
        let answer = runtime.block_on(async {
            while let Some(batch) = scheduler.plan(clock.now()) {
                let output = executor.step(&batch).await.unwrap();
                let output = output.check(&batch).unwrap();
                scheduler.commit(output, clock.now());
                scheduler.deliver();
            }
            let mut answer = Vec::new();
            while let Some(chunk) = stream.next().await {
                answer.extend(chunk.unwrap().tokens);
            }
            answer
        });
        said.push(answer);
    }
    let seconds = (clock.now() - began).as_secs_f64();
    tell(name, seconds, &scheduler.status());
    said
}

fn tell(name: &str, seconds: f64, status: &WorkerStatus) {
    let counts = &status.speculation;
    println!(
        "{name}: {:.1} tokens/s, {} steps for {} tokens; in {} steps {} guesses, {} right ({:.0} %)",
        status.output_tokens as f64 / seconds,
        status.steps,
        status.output_tokens,
        counts.drafts,
        counts.drafted_tokens,
        counts.accepted_tokens,
        100.0 * counts.accepted_tokens as f64 / counts.drafted_tokens.max(1) as f64,
    );
    if !counts.positions.is_empty() {
        // Of the guesses at a place, how many were right; those behind a wrong one are not.
        let kept = counts.positions.iter().map(|position| {
            let share = position.accepted_tokens as f64 / position.drafted_tokens.max(1) as f64;
            format!("{:.0} % of {}", 100.0 * share, position.drafted_tokens)
        });
        println!(
            "{name}: by position {}",
            kept.collect::<Vec<_>>().join(", ")
        );
    }
}

fn request(case: &Case) -> GenerateRequest {
    let (prompt, tokens) = case;
    GenerateRequest {
        id: RequestId::new("example"),
        nonce: 0,
        trace: None,
        prompt: prompt.as_slice().into(),
        answered: Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: *tokens as u32,
            min_tokens: 0,
            ignore_eos: true,
            eos_tokens: Arc::default(),
        },
        sampling: Sampling {
            temperature: 0.0,
            ..Sampling::default()
        },
        logprobs: None,
        grammar: None,
    }
}
