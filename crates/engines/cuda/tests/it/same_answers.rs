//! The engine on the twin says what the CPU's engine says, token for token, whatever the scheduler
//! does: chunks, preemption, padding, slots and blocks that others had, drafts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use checkpoint::Checkpoint;
use contract::{
    Clock, GenerateRequest, Grammar, HashSeed, LinkError, NamedOptions, OutputLimits, Penalties,
    RequestId, Sampling, TokenId, TokenLogprob, WorkerId, token_stream,
};
use cuda::{CudaExecutor, ExecutorOptions, LoadedWeights, ModelOptions, Speculation};
use cuda::{HostOps, Storage};
use engine::{Executor, Scheduler, Submission};
use grammar::Vocabulary;
use llama::{DraftSource, Isa, LlamaExecutor};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::{MODELS, golden, host};

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

/// What came of a request.
#[derive(Clone, Debug, Default, PartialEq)]
struct Answer {
    tokens: Vec<TokenId>,
    logprobs: Vec<TokenLogprob>,
    error: Option<LinkError>,
}

/// What a run was.
#[derive(Debug, Default)]
struct Run {
    answers: Vec<Answer>,
    accepted: u64,
    preemptions: u64,
    cached: u64,
}

/// Runs requests to their end, each `together` at a time.
fn run(mut executor: impl Executor, requests: &[GenerateRequest], together: usize) -> Run {
    let worker = WorkerId(0);
    let mut scheduler = Scheduler::new(worker, executor.limits());
    let clock = Clock::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut run = Run::default();
    for requests in requests.chunks(together) {
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
        runtime.block_on(async {
            while let Some(batch) = scheduler.plan(clock.now()) {
                let output = executor.step(&batch).await.unwrap();
                let output = output.check(&batch).unwrap();
                scheduler.commit(output, clock.now());
                scheduler.deliver();
            }
        });
        for stream in &mut streams {
            let mut answer = Answer::default();
            while let Some(chunk) = stream.try_next() {
                match chunk {
                    Ok(chunk) => {
                        answer.tokens.extend(chunk.tokens);
                        answer.logprobs.extend(chunk.logprobs);
                    }
                    Err(error) => answer.error = Some(error),
                }
            }
            run.answers.push(answer);
        }
    }
    let status = scheduler.status();
    run.accepted = status.speculation.accepted_tokens;
    run.preemptions = status.preemptions;
    run.cached = status.cached_tokens;
    run
}

/// How the engine on the twin runs.
#[derive(Clone, Debug)]
struct Setting {
    blocks: usize,
    step_tokens: usize,
    slots: usize,
    speculation: Speculation,
    vocabulary: Option<Arc<Vocabulary>>,
}

/// More than enough of everything.
fn roomy() -> Setting {
    Setting {
        blocks: 64,
        step_tokens: 256,
        slots: 4,
        speculation: Speculation::None,
        vocabulary: None,
    }
}

/// Three contexts' blocks, and chunks of a few tokens.
fn crowded() -> Setting {
    Setting {
        blocks: 9,
        step_tokens: 9,
        ..roomy()
    }
}

fn on_the_twin(name: &str, setting: &Setting) -> CudaExecutor {
    counting(name, setting).0
}

/// With the bytes that are read from the device.
fn counting(name: &str, setting: &Setting) -> (CudaExecutor, Arc<AtomicUsize>) {
    let checkpoint = Checkpoint::open(&golden(name)).unwrap();
    let mut ops = host();
    let weights: LoadedWeights<<HostOps as cuda::Ops>::Buffer> =
        LoadedWeights::load(&mut ops, &checkpoint, Storage::Exact, &mut |_| ()).unwrap();
    let options = ExecutorOptions {
        model: ModelOptions {
            slots: setting.slots,
            step_tokens: setting.step_tokens,
            outputs: setting.slots * 5,
            context: 256,
            blocks: setting.blocks,
        },
        speculation: setting.speculation,
        drafts: 4,
        adapts: false,
        vocabulary: setting.vocabulary.clone(),
    };
    let read = ops.bytes_read();
    let executor = CudaExecutor::new(ops, &weights, options).unwrap();
    read.store(0, Ordering::Relaxed);
    (executor, read)
}

fn on_the_cpu(name: &str, vocabulary: Option<Arc<Vocabulary>>) -> LlamaExecutor {
    let checkpoint = Checkpoint::open(&golden(name)).unwrap();
    let weights = llama::LoadedWeights::load(&checkpoint, &mut |_| ()).unwrap();
    let options = llama::ExecutorOptions {
        slots: 4,
        model: llama::ModelOptions {
            block_size: 32,
            blocks: 64,
            step_tokens: 256,
            outputs: 32,
            context: 256,
            threads: 1,
            isa: Isa::detect(),
            taps: Vec::new(),
        },
        speculation: DraftSource::None,
        drafts: 4,
        adapts: false,
        vocabulary,
    };
    LlamaExecutor::new(&weights, options).unwrap()
}

/// Equal cases in every run: sums that are nearly equal must not fail one run in a thousand.
fn cases(count: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(26),
        ..ProptestConfig::with_cases(count)
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn answers_are_those_of_the_cpu(
        name in prop::sample::select(MODELS.to_vec()),
        prompts in prop::collection::vec(prop::collection::vec(0u32..120, 1..80), 1..6),
        repeats in any::<bool>(),
        seed: u64,
        step_tokens in 5usize..40,
        slots in 1usize..6,
    ) {
        let mut requests: Vec<_> = prompts
            .iter()
            .enumerate()
            .map(|(index, prompt)| {
                // Something to draft from.
                let prompt = if repeats { prompt.repeat(2) } else { prompt.clone() };
                let sampling = if index % 2 == 0 { cold() } else { warm(seed) };
                request(&prompt, 24, sampling)
            })
            .collect();
        // A prefix that the cache has.
        requests.push(GenerateRequest { nonce: 7, ..requests[0].clone() });
        let expected = run(on_the_cpu(name, None), &requests, 1).answers;
        for setting in [
            roomy(),
            Setting { step_tokens: step_tokens.max(slots), slots, ..crowded() },
            Setting { step_tokens: 24, speculation: Speculation::Ngram, ..crowded() },
        ] {
            let found = run(on_the_twin(name, &setting), &requests, requests.len());
            prop_assert_eq!(&found.answers, &expected, "{:?}", setting);
        }
    }
}

/// Options that a device draws by.
fn sampled() -> impl Strategy<Value = Sampling> {
    let options = (
        prop::sample::select(vec![0.0, 0.3, 1.0, 2.0]),
        prop::sample::select(vec![1.0, 0.999, 0.9, 0.1]),
        prop::sample::select(vec![None, Some(0), Some(1), Some(9), Some(1000)]),
        prop::sample::select(vec![0.0, 0.05, 1.0]),
        any::<Option<u64>>(),
    );
    options.prop_map(|(temperature, top_p, top_k, min_p, seed)| Sampling {
        temperature,
        top_p,
        top_k,
        min_p,
        seed,
        ..Sampling::default()
    })
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn sampled_answers_are_those_of_the_cpu(
        name in prop::sample::select(MODELS.to_vec()),
        asked in prop::collection::vec(
            (prop::collection::vec(0u32..120, 1..20), sampled(), any::<bool>(), 0u32..20),
            1..6,
        ),
        ends in prop::collection::vec(0u32..120, 0..12),
        penalised: bool,
    ) {
        let mut requests: Vec<_> = asked
            .into_iter()
            .map(|(prompt, sampling, ignore_eos, min_tokens)| {
                // Something to draft from.
                let mut request = request(&prompt.repeat(3), 24, sampling);
                request.limits.ignore_eos = ignore_eos;
                request.limits.min_tokens = min_tokens;
                request.limits.eos_tokens = ends.as_slice().into();
                request
            })
            .collect();
        if penalised {
            requests.insert(requests.len() / 2, request(&[7; 9], 24, warm(3)));
        }
        let expected = run(on_the_cpu(name, None), &requests, 1).answers;
        for setting in [
            roomy(),
            crowded(),
            Setting { step_tokens: 24, speculation: Speculation::Ngram, ..crowded() },
        ] {
            let found = run(on_the_twin(name, &setting), &requests, requests.len());
            prop_assert_eq!(&found.answers, &expected, "{:?}", setting);
        }
    }
}

/// A token comes from the device for each that is said, and distributions where more is needed.
#[test]
fn no_distribution_is_read_for_what_the_device_draws() {
    const TOKENS: usize = 24;
    const OF_DISTRIBUTION: usize = 4 * 128;
    let sampled = Sampling {
        top_p: 0.9,
        top_k: Some(20),
        min_p: 0.01,
        ..Sampling::default()
    };
    let forbids = |count: u32, sampling| {
        let mut request = request(&[5, 9, 22, 31], TOKENS as u32, sampling);
        request.limits.eos_tokens = (0..count).collect();
        request
    };
    let with_logprobs = GenerateRequest {
        logprobs: Some(1),
        ..forbids(0, cold())
    };
    for (request, bytes) in [
        (forbids(2, cold()), 4),
        (forbids(0, Sampling::default()), 4),
        (forbids(8, sampled.clone()), 4),
        (forbids(9, sampled), OF_DISTRIBUTION),
        (forbids(0, warm(3)), OF_DISTRIBUTION),
        (with_logprobs, OF_DISTRIBUTION),
    ] {
        let (executor, read) = counting("llama-gqa", &roomy());
        let found = run(executor, std::slice::from_ref(&request), 1).answers;
        assert_eq!(found[0].tokens.len(), TOKENS);
        assert_eq!(read.load(Ordering::Relaxed), TOKENS * bytes, "{request:?}");
    }
}

/// What the cases above rest on happens.
#[test]
fn a_small_cache_preempts_and_finds_prefixes() {
    let prompt = |seed: u32, tokens: u32| -> Vec<TokenId> {
        (0..tokens).map(|at| (at * seed + 5) % 120).collect()
    };
    let short = [3, 17, 40, 71].map(|seed| request(&prompt(seed, 20), 110, cold()));
    let expected = run(on_the_cpu("qwen2", None), &short, 1).answers;
    let found = run(on_the_twin("qwen2", &crowded()), &short, 4);
    assert!(found.preemptions > 0, "nothing was preempted");
    assert_eq!(found.answers, expected);
    let twice = [3, 3].map(|seed| request(&prompt(seed, 70), 20, cold()));
    let expected = run(on_the_cpu("qwen2", None), &twice, 1).answers;
    let found = run(on_the_twin("qwen2", &crowded()), &twice, 1);
    assert!(found.cached >= 64, "no prefix was found");
    assert_eq!(found.answers, expected);
}

/// Drafts are accepted, and say nothing else.
#[test]
fn right_drafts_change_nothing() {
    let prompt: Vec<TokenId> = [5, 9, 22, 31].repeat(6);
    let requests = [request(&prompt, 120, cold())];
    let plain = run(on_the_twin("llama-gqa", &roomy()), &requests, 1);
    let setting = Setting {
        speculation: Speculation::Ngram,
        ..roomy()
    };
    let drafted = run(on_the_twin("llama-gqa", &setting), &requests, 1);
    assert_eq!(drafted.answers, plain.answers);
    assert!(
        drafted.accepted > 0,
        "no draft was accepted: nothing was shown"
    );
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

#[test]
fn constrained_answers_are_those_of_the_cpu() {
    let vocabulary = Some(numbers(128));
    let held = |prompt: &[TokenId], sampling| GenerateRequest {
        grammar: Some(Grammar::Regex("(0[0-9][02468]){500}".into())),
        ..request(prompt, 40, sampling)
    };
    let requests = [
        held(&[5, 9], cold()),
        request(&[7; 9], 24, warm(3)),
        held(&[1, 2, 3], warm(5)),
        held(&[8; 20], cold()),
    ];
    let cpu = on_the_cpu("llama-gqa", vocabulary.clone());
    let expected = run(cpu, &requests, 1).answers;
    assert!(expected[0].tokens.iter().all(|token| token % 2 == 0));
    for speculation in [Speculation::None, Speculation::Ngram] {
        let setting = Setting {
            vocabulary: vocabulary.clone(),
            speculation,
            ..crowded()
        };
        let found = run(on_the_twin("llama-gqa", &setting), &requests, 4);
        assert_eq!(found.answers, expected, "{speculation:?}");
    }
}

/// The likeliest token is not taken from the device where it is forbidden.
#[test]
fn an_end_that_is_forbidden_does_not_come() {
    let prompt = [5, 9, 22, 31];
    let free = run(
        on_the_twin("llama-gqa", &roomy()),
        &[request(&prompt, 20, cold())],
        1,
    );
    let ends: Arc<[TokenId]> = free.answers[0].tokens[..3].into();
    let limits = |ignore_eos, min_tokens| OutputLimits {
        max_tokens: 20,
        min_tokens,
        ignore_eos,
        eos_tokens: Arc::clone(&ends),
    };
    let requests: Vec<_> = [limits(true, 0), limits(false, 5), limits(false, 0)]
        .into_iter()
        .map(|limits| GenerateRequest {
            limits,
            ..request(&prompt, 20, cold())
        })
        .collect();
    let expected = run(on_the_cpu("llama-gqa", None), &requests, 1).answers;
    assert!(expected[2].tokens.is_empty(), "an end is not said");
    assert!(!expected[0].tokens.iter().any(|token| ends.contains(token)));
    for speculation in [Speculation::None, Speculation::Ngram] {
        let setting = Setting {
            speculation,
            ..roomy()
        };
        let found = run(on_the_twin("llama-gqa", &setting), &requests, 3);
        assert_eq!(found.answers, expected, "{speculation:?}");
    }
}

#[test]
fn log_probabilities_are_those_of_the_cpu() {
    let asked = GenerateRequest {
        logprobs: Some(3),
        ..request(&[5, 9, 22, 31], 12, cold())
    };
    let requests = [asked, request(&[7; 9], 12, cold())];
    let expected = run(on_the_cpu("qwen2", None), &requests, 1).answers;
    let found = run(on_the_twin("qwen2", &roomy()), &requests, 2).answers;
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.tokens, expected.tokens);
        assert_eq!(found.logprobs.len(), expected.logprobs.len());
        for (one, other) in found.logprobs.iter().zip(&expected.logprobs) {
            assert!((one.logprob - other.logprob).abs() < 1e-4);
            assert_eq!(one.top.len(), 3);
            for (one, other) in one.top.iter().zip(&other.top) {
                assert_eq!(one.0, other.0);
                assert!((one.1 - other.1).abs() < 1e-4);
            }
        }
    }
}

#[test]
fn a_request_whose_numbers_are_not_finite_fails_alone() {
    let poison = Sampling {
        penalties: Penalties {
            presence: f32::NAN,
            ..Penalties::default()
        },
        ..cold()
    };
    let sound = request(&[5, 9, 22, 31], 24, cold());
    let requests = [sound.clone(), request(&[7, 8, 9], 24, poison), sound];
    let found = run(on_the_twin("llama-gqa", &roomy()), &requests, 3).answers;
    assert!(matches!(found[1].error, Some(LinkError::Failed { .. })));
    assert_eq!(found[0].tokens.len(), 24);
    assert_eq!(found[0], found[2]);
}
