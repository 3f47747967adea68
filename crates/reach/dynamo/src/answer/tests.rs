//! What readers see of what workers send.

use std::sync::Arc;

use contract::{GenerateRequest, HashSeed, RequestId, Sampling};

use super::*;
use crate::wire::engine::{PromptDetails, Usage};

const WORKER: WorkerId = WorkerId(1);
const WAITED: Duration = Duration::from_millis(3);

fn request(max_tokens: u32) -> GenerateRequest {
    GenerateRequest {
        id: RequestId::new("r"),
        nonce: 0,
        trace: None,
        prompt: Arc::from([1; 50]),
        answered: Arc::from([]),
        hash_seed: HashSeed::BASE,
        limits: OutputLimits {
            max_tokens,
            min_tokens: 0,
            ignore_eos: false,
            eos_tokens: Arc::from([2]),
        },
        sampling: Sampling::default(),
        logprobs: None,
        grammar: None,
    }
}

fn output(tokens: &[u32], finish: Option<Finish>) -> engine::Answer<Output> {
    engine::Answer::Data(Output {
        token_ids: tokens.to_vec(),
        finish_reason: finish,
        ..Output::default()
    })
}

/// Plays frames and writes down what the reader sees.
fn play(request: &GenerateRequest, frames: Vec<engine::Answer<Output>>) -> String {
    let mut answer = Answer::new(request, WORKER, 32);
    let mut seen = Vec::new();
    for frame in frames {
        match answer.take(frame, WAITED) {
            Progress::Wait => {}
            Progress::Fail(error) => {
                seen.push(error.to_string());
                break;
            }
            Progress::Chunk(chunk) => {
                let started = chunk.started.map(|started| started.cached_tokens);
                let started = started.map(|tokens| format!(" cached {tokens}"));
                let finish = chunk.finish.map(|finish| format!(" {finish:?}"));
                seen.push(format!(
                    "{:?}{}{}",
                    &chunk.tokens[..],
                    started.unwrap_or_default(),
                    finish.clone().unwrap_or_default()
                ));
                if finish.is_some() {
                    break;
                }
            }
        }
    }
    seen.join(", ")
}

#[test]
fn tokens_pass_and_the_finish_ends_them() {
    let frames = vec![
        output(&[10], None),
        engine::Answer::Nothing,
        output(&[], None),
        output(&[11, 12], None),
        output(&[], Some(Finish::Eos)),
    ];
    assert_eq!(
        play(&request(9), frames),
        "[10] cached 32, [11, 12], [] Stop"
    );
}

#[test]
fn no_more_tokens_pass_than_were_asked_for() {
    let frames = vec![output(&[10, 11], None), output(&[12, 13, 14], None)];
    assert_eq!(play(&request(3), frames), "[10, 11] cached 32, [12] Length");
    let mut continued = request(3);
    continued.answered = Arc::from([8, 9]);
    let frames = vec![output(&[10], None), output(&[], Some(Finish::Length))];
    assert_eq!(play(&continued, frames), "[10] cached 32, [] Length");
}

#[test]
fn the_token_that_ends_the_answer_is_not_part_of_it() {
    let frames = || {
        vec![
            output(&[10, 2, 11], None),
            output(&[], Some(Finish::Length)),
        ]
    };
    assert_eq!(play(&request(9), frames()), "[10] cached 32 Stop");
    let mut on = request(9);
    on.limits.ignore_eos = true;
    assert_eq!(play(&on, frames()), "[10, 2, 11] cached 32, [] Length");
    let mut later = request(9);
    later.limits.min_tokens = 2;
    assert_eq!(play(&later, frames()), "[10, 2, 11] cached 32, [] Length");
}

#[test]
fn the_workers_own_count_of_cached_tokens_comes_first() {
    let frame = engine::Answer::Data(Output {
        token_ids: vec![10],
        completion_usage: Some(Usage {
            prompt_tokens_details: Some(PromptDetails {
                cached_tokens: Some(48),
            }),
        }),
        ..Output::default()
    });
    assert_eq!(play(&request(9), vec![frame]), "[10] cached 48");
}

#[test]
fn an_answer_without_an_end_is_an_error() {
    let frames = vec![output(&[10], None), engine::Answer::End];
    let expected =
        "[10] cached 32, worker 1 broke off the stream: the answer ended without a reason";
    assert_eq!(play(&request(9), frames), expected);
    let cancelled = vec![output(&[], Some(Finish::Cancelled))];
    let expected = "worker 1 broke off the stream: the worker cancelled the request";
    assert_eq!(play(&request(9), cancelled), expected);
}

#[test]
fn errors_become_decisions() {
    let check = |kind: &str, message: &str, expected: LinkError| {
        assert_eq!(fault(WORKER, kind, message), expected);
    };
    let worker = WORKER;
    let owned = str::to_owned;
    let rejected = "request rejected: request exceeds worker admission limits";
    let detail = owned(rejected);
    check("", rejected, LinkError::TooLarge { worker, detail });
    let detail = owned("WorkerOverloaded: x");
    check(
        "WorkerOverloaded",
        "x",
        LinkError::Overloaded { worker, detail },
    );
    let detail = owned("BackendInvalidArgument: x");
    check(
        "BackendInvalidArgument",
        "x",
        LinkError::Refused { worker, detail },
    );
    check("Unavailable", "x", LinkError::Draining { worker });
    let detail = owned("Engine is overloaded");
    check(
        "",
        "Engine is overloaded",
        LinkError::Overloaded { worker, detail },
    );
    let detail = owned("Unknown: boom");
    check("Unknown", "boom", LinkError::Interrupted { worker, detail });
}

#[test]
fn logprobs_are_those_of_the_tokens_that_pass() {
    let mut request = request(1);
    request.logprobs = Some(1);
    let mut answer = Answer::new(&request, WORKER, 0);
    let frame = engine::Answer::Data(Output {
        token_ids: vec![10, 11],
        log_probs: Some(vec![-0.5, -1.5]),
        top_logprobs: Some(vec![vec![engine::Alternative {
            token_id: 10,
            logprob: -0.5,
        }]]),
        ..Output::default()
    });
    let Progress::Chunk(chunk) = answer.take(frame, WAITED) else {
        panic!("a chunk was sent");
    };
    let expected = TokenLogprob {
        logprob: -0.5,
        top: vec![(10, -0.5)],
    };
    assert_eq!(chunk.logprobs, [expected]);
}
