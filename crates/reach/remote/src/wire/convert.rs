//! Requests, chunks, status and load from and to their wire forms.
//!
//! Whatever arrives is checked here, once: a request that makes no sense is refused with the
//! field's name, and a chunk with an unknown finish reason is an error of the stream.

use std::sync::Arc;
use std::time::Duration;

use contract::{
    DRAFT_POSITIONS, FinishReason, FrontendLoad, GenerateRequest, Grammar, HashSeed, LinkError,
    NamedOptions, OutputLimits, Penalties, PositionCounts, RequestId, RequestSpeculation, Sampling,
    SpeculationCounts, Started, TokenChunk, TokenLogprob, WorkerId, WorkerStatus,
};
use tonic::{Code, Status};

use super::generated as wire;

/// Longest name of a request that is passed on.
const LONGEST_ID: usize = 512;

pub fn to_request(request: &GenerateRequest, frontend: u64) -> wire::GenerateRequest {
    wire::GenerateRequest {
        id: request.id.as_str().to_owned(),
        nonce: request.nonce,
        frontend,
        prompt: request.prompt.to_vec(),
        answered: request.answered.to_vec(),
        hash_seed: request.hash_seed.to_bits(),
        max_tokens: request.limits.max_tokens,
        min_tokens: request.limits.min_tokens,
        ignore_eos: request.limits.ignore_eos,
        eos_tokens: request.limits.eos_tokens.to_vec(),
        temperature: request.sampling.temperature,
        top_p: request.sampling.top_p,
        top_k: request.sampling.top_k,
        seed: request.sampling.seed,
        logprobs: request.logprobs.map(u32::from),
        min_p: request.sampling.min_p,
        presence_penalty: request.sampling.penalties.presence,
        frequency_penalty: request.sampling.penalties.frequency,
        repetition_penalty: Some(request.sampling.penalties.repetition),
        biased_tokens: request
            .sampling
            .logit_bias
            .iter()
            .map(|(token, _)| *token)
            .collect(),
        biases: request
            .sampling
            .logit_bias
            .iter()
            .map(|(_, bias)| *bias)
            .collect(),
        grammar: request.grammar.as_ref().map(|grammar| {
            let source = grammar.source().to_owned();
            match grammar {
                Grammar::JsonSchema(_) => wire::generate_request::Grammar::JsonSchema(source),
                Grammar::Regex(_) => wire::generate_request::Grammar::Regex(source),
                Grammar::Lark(_) => wire::generate_request::Grammar::Lark(source),
            }
        }),
    }
}

/// Refuses what no frontend of ours sends, naming the field.
pub fn from_request(request: wire::GenerateRequest) -> Result<GenerateRequest, Status> {
    let refuse = |field: &str| Err(Status::invalid_argument(format!("`{field}` is invalid")));
    if request.prompt.is_empty() {
        return refuse("prompt");
    }
    if request.id.len() > LONGEST_ID {
        return refuse("id");
    }
    if request.max_tokens == 0 {
        return refuse("max_tokens");
    }
    if request.answered.len() >= request.max_tokens as usize {
        return refuse("answered");
    }
    if !(request.temperature.is_finite() && request.temperature >= 0.0) {
        return refuse("temperature");
    }
    if !(request.top_p.is_finite() && (0.0..=1.0).contains(&request.top_p)) {
        return refuse("top_p");
    }
    if !(request.min_p.is_finite() && (0.0..=1.0).contains(&request.min_p)) {
        return refuse("min_p");
    }
    let penalties = Penalties {
        presence: request.presence_penalty,
        frequency: request.frequency_penalty,
        repetition: request.repetition_penalty.unwrap_or(1.0),
    };
    if !(penalties.presence.is_finite() && penalties.frequency.is_finite()) {
        return refuse("penalty");
    }
    if !(penalties.repetition.is_finite() && penalties.repetition > 0.0) {
        return refuse("repetition_penalty");
    }
    let Ok(logprobs) = request.logprobs.map(u8::try_from).transpose() else {
        return refuse("logprobs");
    };
    let biases = request.biases.iter();
    if request.biased_tokens.len() != biases.len() || !biases.clone().all(|bias| bias.is_finite()) {
        return refuse("biases");
    }
    let logit_bias = request.biased_tokens.iter().copied().zip(biases.copied());
    Ok(GenerateRequest {
        id: RequestId::new(&request.id),
        nonce: request.nonce,
        trace: None,
        prompt: request.prompt.into(),
        answered: request.answered.into(),
        hash_seed: HashSeed::from_bits(request.hash_seed),
        limits: OutputLimits {
            max_tokens: request.max_tokens,
            min_tokens: request.min_tokens,
            ignore_eos: request.ignore_eos,
            eos_tokens: Arc::from(request.eos_tokens),
        },
        sampling: Sampling {
            temperature: request.temperature,
            top_p: request.top_p,
            top_k: request.top_k,
            min_p: request.min_p,
            penalties,
            logit_bias: logit_bias.collect(),
            seed: request.seed,
            // Workers of ours have no values of their own.
            named: NamedOptions::default(),
        },
        logprobs,
        grammar: request.grammar.map(from_grammar),
    })
}

fn from_grammar(grammar: wire::generate_request::Grammar) -> Grammar {
    match grammar {
        wire::generate_request::Grammar::JsonSchema(source) => Grammar::JsonSchema(source.into()),
        wire::generate_request::Grammar::Regex(source) => Grammar::Regex(source.into()),
        wire::generate_request::Grammar::Lark(source) => Grammar::Lark(source.into()),
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub fn to_chunk(chunk: TokenChunk) -> wire::Chunk {
    let finish = match chunk.finish {
        None => wire::FinishReason::Unspecified,
        Some(FinishReason::Stop) => wire::FinishReason::Stop,
        Some(FinishReason::Length) => wire::FinishReason::Length,
    };
    wire::Chunk {
        tokens: chunk.tokens.to_vec(),
        logprobs: chunk.logprobs.into_iter().map(to_logprob).collect(),
        started: chunk.started.map(|started| wire::Started {
            cached_tokens: started.cached_tokens,
            intake_nanos: nanos(started.intake),
            queue_wait_nanos: nanos(started.queue_wait),
            prefill_nanos: nanos(started.prefill),
        }),
        finish: finish.into(),
        speculation: chunk.speculation.map(|counts| wire::RequestSpeculation {
            drafts: counts.drafts,
            drafted_tokens: counts.drafted_tokens,
            accepted_tokens: counts.accepted_tokens,
        }),
    }
}

/// `None` if the chunk ends its answer in a way that this version does not know.
pub fn from_chunk(chunk: wire::Chunk) -> Option<TokenChunk> {
    let finish = match wire::FinishReason::try_from(chunk.finish).ok()? {
        wire::FinishReason::Unspecified => None,
        wire::FinishReason::Stop => Some(FinishReason::Stop),
        wire::FinishReason::Length => Some(FinishReason::Length),
    };
    Some(TokenChunk {
        tokens: chunk.tokens.into(),
        logprobs: chunk.logprobs.into_iter().map(from_logprob).collect(),
        started: chunk.started.map(|started| {
            Box::new(Started {
                cached_tokens: started.cached_tokens,
                intake: Duration::from_nanos(started.intake_nanos),
                queue_wait: Duration::from_nanos(started.queue_wait_nanos),
                prefill: Duration::from_nanos(started.prefill_nanos),
            })
        }),
        finish,
        speculation: chunk.speculation.map(|counts| RequestSpeculation {
            drafts: counts.drafts,
            drafted_tokens: counts.drafted_tokens,
            accepted_tokens: counts.accepted_tokens.min(counts.drafted_tokens),
        }),
        written: None,
    })
}

fn to_logprob(logprob: TokenLogprob) -> wire::TokenLogprob {
    let (top_tokens, top_logprobs) = logprob.top.into_iter().unzip();
    wire::TokenLogprob {
        logprob: logprob.logprob,
        top_tokens,
        top_logprobs,
    }
}

fn from_logprob(logprob: wire::TokenLogprob) -> TokenLogprob {
    let top = logprob.top_tokens.into_iter().zip(logprob.top_logprobs);
    TokenLogprob {
        logprob: logprob.logprob,
        top: top.collect(),
    }
}

pub fn to_load(load: &FrontendLoad) -> wire::Load {
    wire::Load {
        in_flight: load.in_flight,
        pending_prefill_tokens: load.pending_prefill_tokens,
        pending_requests: load.pending_requests,
        active_blocks: load.active_blocks,
        waiting: load.waiting,
        lease: load.lease,
    }
}

/// Levels beyond all reason are cut, so that sums of them stay numbers.
pub fn from_load(load: &wire::Load) -> FrontendLoad {
    const MOST: u32 = 1 << 24;
    FrontendLoad {
        in_flight: load.in_flight.min(MOST),
        pending_prefill_tokens: load.pending_prefill_tokens.min(1 << 48),
        pending_requests: load.pending_requests.min(MOST),
        active_blocks: load.active_blocks.min(MOST),
        waiting: load.waiting.min(MOST),
        lease: load.lease,
    }
}

pub fn to_status(status: &WorkerStatus) -> wire::Status {
    let counts = &status.speculation;
    let positions = counts.positions.iter();
    wire::Status {
        running: status.running,
        waiting: status.waiting,
        active_blocks: status.active_blocks,
        cached_blocks: status.cached_blocks,
        free_blocks: status.free_blocks,
        utilization: status.utilization,
        gpu_memory_used_bytes: status.gpu_memory_used_bytes,
        steps: status.steps,
        preemptions: status.preemptions,
        prompt_tokens: status.prompt_tokens,
        cached_tokens: status.cached_tokens,
        output_tokens: status.output_tokens,
        drafts: counts.drafts,
        drafted_tokens: counts.drafted_tokens,
        accepted_tokens: counts.accepted_tokens,
        position_drafted_tokens: positions.clone().map(|one| one.drafted_tokens).collect(),
        position_accepted_tokens: positions.map(|one| one.accepted_tokens).collect(),
        draft_nanos: nanos(counts.draft_time),
        verify_nanos: nanos(counts.verify_time),
        draft_length: counts.draft_length,
        step_nanos: nanos(status.step_time),
    }
}

/// A share that is none counts as nothing, so that averages of it stay numbers. So does the nothing
/// with a sign, which would not cross the wire again: nothing is left out there.
pub fn from_status(status: &wire::Status) -> WorkerStatus {
    let utilization = Some(status.utilization).filter(|share| *share > 0.0);
    WorkerStatus {
        running: status.running,
        waiting: status.waiting,
        active_blocks: status.active_blocks,
        cached_blocks: status.cached_blocks,
        free_blocks: status.free_blocks,
        utilization: utilization.map_or(0.0, |share| share.min(1.0)),
        gpu_memory_used_bytes: status.gpu_memory_used_bytes,
        steps: status.steps,
        step_time: Duration::from_nanos(status.step_nanos),
        preemptions: status.preemptions,
        prompt_tokens: status.prompt_tokens,
        cached_tokens: status.cached_tokens,
        output_tokens: status.output_tokens,
        speculation: SpeculationCounts {
            drafts: status.drafts,
            drafted_tokens: status.drafted_tokens,
            accepted_tokens: status.accepted_tokens,
            positions: from_positions(status),
            draft_time: Duration::from_nanos(status.draft_nanos),
            verify_time: Duration::from_nanos(status.verify_nanos),
            draft_length: status.draft_length,
        },
        // Of engines that are not ours.
        cache_estimated: false,
    }
}

/// As many as there are of both lists, and never more than a worker of ours has.
fn from_positions(status: &wire::Status) -> Vec<PositionCounts> {
    let drafted = status.position_drafted_tokens.iter();
    let both = drafted.zip(&status.position_accepted_tokens);
    both.take(DRAFT_POSITIONS)
        .map(|(&drafted_tokens, &accepted_tokens)| PositionCounts {
            drafted_tokens,
            accepted_tokens: accepted_tokens.min(drafted_tokens),
        })
        .collect()
}

/// How a worker's refusal travels.
pub fn to_grpc(error: &LinkError) -> Status {
    let code = match error {
        LinkError::Unreachable { .. } | LinkError::Lost { .. } => Code::Unavailable,
        LinkError::Draining { .. } => Code::FailedPrecondition,
        LinkError::Overloaded { .. } => Code::ResourceExhausted,
        LinkError::TooLarge { .. } => Code::OutOfRange,
        LinkError::Refused { .. } => Code::InvalidArgument,
        LinkError::Failed { .. } => Code::DataLoss,
        LinkError::Stalled { .. } | LinkError::Interrupted { .. } => Code::Aborted,
    };
    let message = match error {
        LinkError::Unreachable { detail, .. }
        | LinkError::Overloaded { detail, .. }
        | LinkError::TooLarge { detail, .. }
        | LinkError::Refused { detail, .. }
        | LinkError::Failed { detail, .. }
        | LinkError::Interrupted { detail, .. } => detail.clone(),
        LinkError::Lost { .. } => "it has left".to_owned(),
        LinkError::Draining { .. } => "draining".to_owned(),
        LinkError::Stalled { quiet, .. } => format!("sent nothing for {quiet:?}"),
    };
    Status::new(code, message)
}

/// What a call that did not end well means.
pub fn from_grpc(worker: WorkerId, status: &Status) -> LinkError {
    let detail = match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    };
    // What has a cause was made here, of a connection that failed; whatever its code says, the
    // worker did not say it.
    if std::error::Error::source(status).is_some() {
        return LinkError::Unreachable { worker, detail };
    }
    match status.code() {
        Code::FailedPrecondition => LinkError::Draining { worker },
        Code::ResourceExhausted => LinkError::Overloaded { worker, detail },
        Code::OutOfRange => LinkError::TooLarge { worker, detail },
        Code::InvalidArgument => LinkError::Refused { worker, detail },
        Code::DataLoss => LinkError::Failed { worker, detail },
        Code::Aborted => LinkError::Interrupted { worker, detail },
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::Unimplemented
        | Code::Internal
        | Code::Unavailable
        | Code::Unauthenticated => LinkError::Unreachable { worker, detail },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_connection_that_failed_is_not_an_overloaded_worker() {
        let worker = WorkerId(3);
        let said = Status::resource_exhausted("full");
        let overloaded = from_grpc(worker, &said);
        assert!(matches!(overloaded, LinkError::Overloaded { .. }));
        let mut made = said;
        made.set_source(Arc::new(std::io::Error::other("too_many_data_frames")));
        let lost = from_grpc(worker, &made);
        assert!(matches!(lost, LinkError::Unreachable { .. }));
    }

    fn request() -> wire::GenerateRequest {
        wire::GenerateRequest {
            id: "r".to_owned(),
            prompt: vec![1, 2, 3],
            max_tokens: 5,
            top_p: 1.0,
            hash_seed: 1337,
            ..wire::GenerateRequest::default()
        }
    }

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let sent = wire::GenerateRequest {
            nonce: 77,
            frontend: 9,
            answered: vec![8, 9],
            min_tokens: 1,
            ignore_eos: true,
            eos_tokens: vec![2],
            temperature: 0.5,
            top_k: Some(3),
            min_p: 0.05,
            presence_penalty: 0.5,
            frequency_penalty: -0.5,
            repetition_penalty: Some(1.1),
            seed: Some(u64::MAX),
            logprobs: Some(4),
            ..request()
        };
        let arrived = from_request(sent.clone()).unwrap();
        assert_eq!(to_request(&arrived, 9), sent);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let broken = [
            (
                "prompt",
                wire::GenerateRequest {
                    prompt: vec![],
                    ..request()
                },
            ),
            (
                "id",
                wire::GenerateRequest {
                    id: "x".repeat(600),
                    ..request()
                },
            ),
            (
                "max_tokens",
                wire::GenerateRequest {
                    max_tokens: 0,
                    ..request()
                },
            ),
            (
                "answered",
                wire::GenerateRequest {
                    answered: vec![1; 5],
                    ..request()
                },
            ),
            (
                "temperature",
                wire::GenerateRequest {
                    temperature: f32::NAN,
                    ..request()
                },
            ),
            (
                "top_p",
                wire::GenerateRequest {
                    top_p: 1.5,
                    ..request()
                },
            ),
            (
                "logprobs",
                wire::GenerateRequest {
                    logprobs: Some(256),
                    ..request()
                },
            ),
        ];
        for (field, request) in broken {
            let status = from_request(request).unwrap_err();
            assert!(status.message().contains(field), "{field}: {status}");
        }
    }

    #[test]
    fn errors_mean_the_same_on_both_sides() {
        let worker = WorkerId(3);
        let detail = "because".to_owned();
        for error in [
            LinkError::Unreachable {
                worker,
                detail: detail.clone(),
            },
            LinkError::Draining { worker },
            LinkError::Overloaded {
                worker,
                detail: detail.clone(),
            },
            LinkError::TooLarge {
                worker,
                detail: detail.clone(),
            },
            LinkError::Refused {
                worker,
                detail: detail.clone(),
            },
            LinkError::Failed {
                worker,
                detail: detail.clone(),
            },
            LinkError::Interrupted { worker, detail },
        ] {
            assert_eq!(from_grpc(worker, &to_grpc(&error)), error);
        }
    }

    fn chunk() -> impl Strategy<Value = TokenChunk> {
        let started = any::<Option<(u32, u64, u64)>>();
        let logprobs = prop::collection::vec((-9.0..0.0_f32, any::<Option<u32>>()), 0..3);
        let finish = prop_oneof![
            Just(None),
            Just(Some(FinishReason::Stop)),
            Just(Some(FinishReason::Length))
        ];
        let tokens = prop::collection::vec(any::<u32>(), 0..6);
        let speculation = prop::option::of((1..9_u32, 0..99_u32, 0..99_u32));
        let parts = (tokens, logprobs, started, finish, speculation);
        parts.prop_map(
            |(tokens, logprobs, started, finish, speculation)| TokenChunk {
                tokens: tokens.into(),
                logprobs: logprobs
                    .into_iter()
                    .map(|(logprob, top)| TokenLogprob {
                        logprob,
                        top: top.into_iter().map(|token| (token, logprob)).collect(),
                    })
                    .collect(),
                started: started.map(|(cached_tokens, wait, prefill)| {
                    Box::new(Started {
                        cached_tokens,
                        intake: Duration::from_nanos(prefill / 2),
                        queue_wait: Duration::from_nanos(wait),
                        prefill: Duration::from_nanos(prefill),
                    })
                }),
                finish,
                speculation: speculation.map(|(drafts, kept, lost)| RequestSpeculation {
                    drafts,
                    drafted_tokens: kept + lost,
                    accepted_tokens: kept,
                }),
                written: None,
            },
        )
    }

    proptest! {
        #[test]
        fn a_chunk_arrives_as_it_was_sent(chunk in chunk()) {
            prop_assert_eq!(from_chunk(to_chunk(chunk.clone())), Some(chunk));
        }
    }

    #[test]
    fn a_share_is_between_nothing_and_all() {
        let taken = |utilization| {
            let status = wire::Status {
                utilization,
                ..wire::Status::default()
            };
            from_status(&status).utilization
        };
        let shares = [f64::NAN, -1.0, -0.0, 0.25, f64::INFINITY];
        let expected = [0.0, 0.0, 0.0, 0.25, 1.0];
        // By their bits, which tell the two nothings apart.
        assert_eq!(
            shares.map(taken).map(f64::to_bits),
            expected.map(f64::to_bits)
        );
    }

    #[test]
    fn a_status_arrives_as_it_was_sent() {
        let position = |drafted_tokens, accepted_tokens| PositionCounts {
            drafted_tokens,
            accepted_tokens,
        };
        let sent = WorkerStatus {
            cache_estimated: false,
            running: 1,
            waiting: 2,
            active_blocks: 3,
            cached_blocks: 4,
            free_blocks: 5,
            utilization: 0.5,
            gpu_memory_used_bytes: 6,
            steps: 7,
            step_time: Duration::from_nanos(8),
            preemptions: 9,
            prompt_tokens: 10,
            cached_tokens: 11,
            output_tokens: 12,
            speculation: SpeculationCounts {
                drafts: 13,
                drafted_tokens: 20,
                accepted_tokens: 15,
                positions: vec![position(13, 12), position(7, 3)],
                draft_time: Duration::from_nanos(16),
                verify_time: Duration::from_nanos(17),
                draft_length: 2,
            },
        };
        assert_eq!(from_status(&to_status(&sent)), sent);
        // A worker that says nothing of its drafts made none.
        assert_eq!(
            from_status(&wire::Status::default()),
            WorkerStatus::default()
        );
    }

    #[test]
    fn positions_beyond_reason_are_cut() {
        let taken = |drafted: &[u64], accepted: &[u64]| {
            let status = wire::Status {
                position_drafted_tokens: drafted.to_vec(),
                position_accepted_tokens: accepted.to_vec(),
                ..wire::Status::default()
            };
            let positions = from_status(&status).speculation.positions;
            let pair = |one: &PositionCounts| (one.drafted_tokens, one.accepted_tokens);
            positions.iter().map(pair).collect::<Vec<_>>()
        };
        assert_eq!(taken(&[5, 4], &[3]), [(5, 3)]);
        assert_eq!(taken(&[5], &[6]), [(5, 5)]);
        assert_eq!(taken(&[1; 99], &[1; 99]).len(), DRAFT_POSITIONS);
    }

    #[test]
    fn an_unknown_end_is_no_chunk() {
        let chunk = wire::Chunk {
            finish: 9,
            ..wire::Chunk::default()
        };
        assert_eq!(from_chunk(chunk), None);
    }
}
