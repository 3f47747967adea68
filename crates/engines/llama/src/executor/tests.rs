//! The model under the engine's own scheduler: whatever the scheduler does, and whether or
//! not guesses are made, the same request is answered the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::{
    Clock, GenerateRequest, Grammar, HashSeed, LinkError, NamedOptions, OutputLimits, Penalties,
    RequestId, Sampling, TokenId, WorkerId, token_stream,
};
use engine::{Executor as _, Scheduler, Submission};
use grammar::Vocabulary;
use proptest::prelude::*;

use super::{DraftSource, ExecutorOptions, LlamaExecutor};
use crate::eagle3::LoadedHead;
use crate::kernels::Isa;
use crate::model::{LoadedWeights, ModelOptions};
use checkpoint::Checkpoint;
use checkpoint::HeadFiles;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn weights() -> LoadedWeights {
    let checkpoint = Checkpoint::open(&folder("llama-gqa")).unwrap();
    LoadedWeights::load(&checkpoint, &mut |_| ()).unwrap()
}

/// Every way to guess: among the models, one that is always right and one that seldom is.
fn sources(weights: &LoadedWeights) -> Vec<DraftSource> {
    let other = Checkpoint::open(&folder("llama-rope-scaled")).unwrap();
    let other = LoadedWeights::load(&other, &mut |_| ()).unwrap();
    let head = HeadFiles::open(&folder("eagle3-shared")).unwrap();
    vec![
        DraftSource::Ngram,
        DraftSource::Model(weights.clone()),
        DraftSource::Model(other),
        DraftSource::Eagle3(LoadedHead::load(&head, weights.config()).unwrap()),
    ]
}

fn options(speculation: DraftSource, blocks: usize, step_tokens: usize) -> ExecutorOptions {
    ExecutorOptions {
        slots: 4,
        model: ModelOptions {
            block_size: 4,
            blocks,
            step_tokens,
            outputs: 32,
            context: 256,
            threads: 1,
            isa: Isa::detect(),
            taps: Vec::new(),
        },
        speculation,
        drafts: 4,
        adapts: true,
        vocabulary: None,
    }
}

fn request(prompt: &[TokenId], tokens: u32, sampling: Sampling) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("test"),
        nonce: 0,
        trace: None,
        prompt: prompt.into(),
        answered: Arc::default(),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens: tokens,
            min_tokens: 0,
            ignore_eos: true,
            eos_tokens: Arc::default(),
        },
        sampling,
        logprobs: None,
        grammar: None,
    }
}

/// Runs requests to their end; what each was answered, and how many guesses were right.
fn answers(
    weights: &LoadedWeights,
    options: ExecutorOptions,
    requests: &[GenerateRequest],
) -> (Vec<Vec<TokenId>>, u64) {
    let guesses = !matches!(options.speculation, DraftSource::None);
    let mut executor = LlamaExecutor::new(weights, options).unwrap();
    let worker = WorkerId(0);
    let mut scheduler = Scheduler::new(worker, executor.limits());
    let clock = Clock::start();
    let mut streams = Vec::new();
    for request in requests {
        let (sender, stream) = token_stream(worker);
        let submission = Submission {
            request: request.clone(),
            sender,
            arrival: clock.now(),
        };
        scheduler.submit(submission).unwrap();
        streams.push(stream);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        while let Some(batch) = scheduler.plan(clock.now()) {
            let output = executor.step(&batch).await.unwrap();
            let output = output.check(&batch).unwrap();
            scheduler.commit(output, clock.now());
            scheduler.deliver();
        }
        let status = scheduler.status();
        let counts = status.speculation;
        // The parts of steps lie inside them, and what does not guess spends nothing on it.
        assert!(counts.draft_time + counts.verify_time <= status.step_time);
        assert!(guesses || counts.draft_time.is_zero());
        assert_eq!(counts.drafts == 0, counts.verify_time.is_zero());
        let accepted = counts.accepted_tokens;
        let mut answers = Vec::new();
        for mut stream in streams {
            let mut answer = Vec::new();
            while let Some(chunk) = stream.next().await {
                answer.extend(chunk.unwrap().tokens);
            }
            answers.push(answer);
        }
        (answers, accepted)
    })
}

fn cold() -> Sampling {
    Sampling {
        temperature: 0.0,
        ..Sampling::default()
    }
}

fn warm(seed: u64) -> Sampling {
    Sampling {
        temperature: 0.8,
        top_p: 0.9,
        top_k: Some(20),
        min_p: 0.01,
        penalties: Penalties {
            presence: 0.2,
            frequency: 0.3,
            repetition: 1.1,
        },
        seed: Some(seed),
        logit_bias: Arc::default(),
        named: NamedOptions::default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Preemption included: the small cache cannot hold all of them at once.
    #[test]
    fn answers_depend_on_the_request_alone(
        prompts in prop::collection::vec(prop::collection::vec(0u32..120, 1..30), 1..5),
        seed: u64,
        adapts: bool,
    ) {
        let weights = weights();
        let requests: Vec<_> = prompts
            .iter()
            .enumerate()
            .map(|(index, prompt)| {
                let sampling = if index % 2 == 0 { cold() } else { warm(seed) };
                request(prompt, 24, sampling)
            })
            .collect();
        let alone: Vec<_> = requests
            .iter()
            .map(|one| answers(&weights, options(DraftSource::None, 64, 64), std::slice::from_ref(one)).0.remove(0))
            .collect();
        let (crowded, _) = answers(&weights, options(DraftSource::None, 20, 9), &requests);
        prop_assert_eq!(&crowded, &alone);
        for source in sources(&weights) {
            let name = source.as_str();
            let options = ExecutorOptions { adapts, ..options(source, 20, 24) };
            let (guessed, _) = answers(&weights, options, &requests);
            prop_assert_eq!(&guessed, &alone, "{}", name);
        }
    }
}

/// The target as its own draft is always right; nobody changes what is said.
#[test]
fn guesses_are_counted_and_change_nothing() {
    let weights = weights();
    let prompt: Vec<TokenId> = [5, 9, 22, 31].repeat(6);
    let asked = [request(&prompt, 120, cold())];
    let (plain, none) = answers(&weights, options(DraftSource::None, 64, 64), &asked);
    assert_eq!(none, 0);
    for source in sources(&weights) {
        let name = source.as_str();
        let itself =
            matches!(&source, DraftSource::Model(model) if model.config() == weights.config());
        let (guessed, right) = answers(&weights, options(source, 64, 64), &asked);
        assert_eq!(plain, guessed, "{name}");
        println!("{name}: {right} guesses were right");
        if itself {
            assert!(right > 0, "{name}");
        }
    }
}

/// Each token is its number, in three digits.
fn numbers(size: usize) -> Arc<Vocabulary> {
    Arc::new(Vocabulary::new(move || {
        let text = |id: usize| grammar::Token::Text(format!("{id:03}").into_bytes());
        let mut tokens: Vec<grammar::Token> = (0..size - 1).map(text).collect();
        tokens.push(grammar::Token::Special("<end>".to_owned()));
        (tokens, vec![size as TokenId - 1])
    }))
}

/// Preemption included: the answer so far is followed again. Every verified row has its own mask.
#[test]
fn neither_guesses_nor_the_batch_change_a_constrained_answer() {
    let weights = weights();
    let vocabulary = Some(numbers(weights.config().vocabulary));
    let held = |prompt: &[TokenId], sampling| GenerateRequest {
        grammar: Some(Grammar::Regex("(0[0-9][02468]){500}".into())),
        ..request(prompt, 60, sampling)
    };
    let requests = [
        held(&[5, 9], cold()),
        request(&[7; 9], 24, warm(3)),
        held(&[1, 2, 3], warm(5)),
        held(&[8; 20], cold()),
    ];
    let with = |options: ExecutorOptions| ExecutorOptions {
        adapts: false,
        vocabulary: vocabulary.clone(),
        ..options
    };
    let (plain, _) = answers(
        &weights,
        with(options(DraftSource::None, 128, 64)),
        &requests,
    );
    for answer in [&plain[0], &plain[2], &plain[3]] {
        assert_eq!(answer.len(), 60);
        assert!(
            answer.iter().all(|token| *token < 100 && token % 2 == 0),
            "{answer:?}"
        );
    }
    let (crowded, _) = answers(&weights, with(options(DraftSource::None, 40, 9)), &requests);
    assert_eq!(crowded, plain);
    let mut right = 0;
    for source in sources(&weights) {
        let name = source.as_str();
        let (guessed, accepted) = answers(&weights, with(options(source, 40, 24)), &requests);
        assert_eq!(guessed, plain, "{name}");
        right += accepted;
    }
    assert!(
        right > 0,
        "no draft was ever accepted, so nothing was shown"
    );
}

fn drawn(nonce: u64, seed: Option<u64>) -> GenerateRequest {
    let sampling = Sampling {
        seed,
        ..Sampling::default()
    };
    GenerateRequest {
        nonce,
        ..request(&[5, 9, 22, 31], 24, sampling)
    }
}

#[test]
fn equal_prompts_are_drawn_for_independently_unless_they_have_a_seed() {
    let weights = weights();
    let answers = |requests: &[GenerateRequest]| {
        let options = options(DraftSource::None, 64, 64);
        answers(&weights, options, requests).0
    };
    // One request's prompts have one name.
    let four = answers(&[1, 2, 3, 4].map(|nonce| drawn(nonce, None)));
    for (index, answer) in four.iter().enumerate() {
        assert!(!four[..index].contains(answer), "{four:?}");
    }
    assert_eq!(answers(&[drawn(2, None)])[0], four[1]);
    let seeded = answers(&[1, 2].map(|nonce| drawn(nonce, Some(7))));
    assert_eq!(seeded[0], seeded[1]);
    // Another worker goes on with the same draws.
    let mut moved = drawn(3, None);
    moved.answered = four[2][..10].into();
    assert_eq!(answers(&[moved])[0], four[2][10..]);
}

#[test]
fn a_request_whose_numbers_are_not_finite_fails_alone() {
    let weights = weights();
    let poison = Sampling {
        penalties: Penalties {
            presence: f32::NAN,
            ..Penalties::default()
        },
        ..cold()
    };
    let sound = request(&[5, 9, 22, 31], 24, cold());
    let expected = answers(
        &weights,
        options(DraftSource::None, 64, 64),
        std::slice::from_ref(&sound),
    );
    for source in [DraftSource::None].into_iter().chain(sources(&weights)) {
        let mut executor = LlamaExecutor::new(&weights, options(source, 64, 64)).unwrap();
        let mut scheduler = Scheduler::new(WorkerId(0), executor.limits());
        let clock = Clock::start();
        let poisoned = request(&[7, 8, 9], 24, poison.clone());
        let mut streams = [sound.clone(), poisoned, sound.clone()].map(|request| {
            let (sender, stream) = token_stream(WorkerId(0));
            let arrival = clock.now();
            let submission = Submission {
                request,
                sender,
                arrival,
            };
            scheduler.submit(submission).unwrap();
            stream
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            while let Some(batch) = scheduler.plan(clock.now()) {
                let output = executor.step(&batch).await.unwrap();
                let output = output.check(&batch).unwrap();
                scheduler.commit(output, clock.now());
                scheduler.deliver();
            }
        });
        let mut ends = Vec::new();
        for stream in &mut streams {
            let (mut answer, mut error) = (Vec::new(), None);
            while let Some(chunk) = stream.try_next() {
                match chunk {
                    Ok(chunk) => answer.extend(chunk.tokens),
                    Err(failure) => error = Some(failure),
                }
            }
            ends.push((answer, error));
        }
        assert_eq!(ends[0], (expected.0[0].clone(), None));
        assert!(matches!(ends[1].1, Some(LinkError::Failed { .. })));
        assert_eq!(ends[2], ends[0]);
    }
}
