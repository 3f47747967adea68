//! vLLM: events over ZeroMQ, load in Prometheus' text format.

use contract::{DRAFT_POSITIONS, GenerateRequest, PositionCounts, SpeculationCounts};

use crate::dialect::{CacheEvents, Dialect, Report, USUAL_ENDPOINTS};
use crate::drafts::DraftReport;
use crate::extensions::Extensions;
use crate::figures::{About, Load, count, label, series, sum, value};
use crate::wire::msgpack;

const METRICS: &[&str] = &["/metrics"];

pub(crate) const DIALECT: Dialect = Dialect {
    name: "vllm",
    extensions,
    logprobs: true,
    cache_salt: true,
    omits_zero_cached: false,
    events: CacheEvents::Published {
        decode: msgpack::decode,
    },
    load: Some(Report {
        paths: METRICS,
        read: load,
    }),
    about: Some(Report {
        paths: METRICS,
        read: about,
    }),
    forwards: USUAL_ENDPOINTS,
    reset_path: Some("/reset_prefix_cache"),
    reset_hint: " (vLLM has it with VLLM_SERVER_DEV_MODE=1)",
};

fn extensions(request: &GenerateRequest) -> Extensions<'_> {
    Extensions {
        return_token_ids: Some(true),
        // Without it, alternatives are named by their text, which several tokens may share.
        return_tokens_as_token_ids: request.logprobs.map(|_| true),
        ..Extensions::sampling(request)
    }
}

fn load(body: &str) -> Option<Load> {
    // The second name is that of older releases.
    let usage = sum(body, "vllm:kv_cache_usage_perc")
        .or_else(|| sum(body, "vllm:gpu_cache_usage_perc"))
        .unwrap_or(0.0);
    Some(Load {
        running: count(sum(body, "vllm:num_requests_running")?),
        waiting: count(sum(body, "vllm:num_requests_waiting")?),
        usage,
        drafts: drafts(body).map(DraftReport::Totals),
    })
}

/// Only a server with a `--speculative-config` has these counters.
fn drafts(body: &str) -> Option<SpeculationCounts> {
    let total = |name: &str| Some(sum(body, &format!("vllm:spec_decode_num_{name}_total"))? as u64);
    let drafts = total("drafts")?;
    Some(SpeculationCounts {
        drafts,
        drafted_tokens: total("draft_tokens")?,
        accepted_tokens: total("accepted_tokens")?,
        positions: positions(body, drafts),
        ..SpeculationCounts::default()
    })
}

/// It counts what is accepted at each position, and what is drafted only in all: as in its own
/// figures of a position, every draft is taken to be whole.
fn positions(body: &str, drafts: u64) -> Vec<PositionCounts> {
    let mut positions = Vec::new();
    for line in series(body, "vllm:spec_decode_num_accepted_tokens_per_pos_total") {
        let place = label(line, "position").and_then(|place| place.parse::<usize>().ok());
        let (Some(place), Some(accepted)) = (place, value(line)) else {
            continue;
        };
        if place >= DRAFT_POSITIONS {
            continue;
        }
        if positions.len() <= place {
            let none = PositionCounts {
                drafted_tokens: drafts,
                accepted_tokens: 0,
            };
            positions.resize(place + 1, none);
        }
        let total = &mut positions[place].accepted_tokens;
        *total = total.saturating_add(accepted as u64);
    }
    positions
}

fn about(body: &str) -> About {
    let label = |name| {
        let line = series(body, "vllm:cache_config_info").next()?;
        label(line, name)?.parse().ok()
    };
    About {
        block_size: label("block_size"),
        blocks: label("num_gpu_blocks"),
        ..About::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "# HELP vllm:num_requests_running Number of requests\n\
        # TYPE vllm:num_requests_running gauge\n\
        vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n\
        vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 2.0\n\
        vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 9.0\n\
        vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25\n\
        vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",num_gpu_blocks=\"27000\"} 1.0\n";

    #[test]
    fn vllm_speaks_prometheus() {
        let load = load(BODY).unwrap();
        assert_eq!((load.running, load.waiting, load.usage), (3, 2, 0.25));
        assert_eq!(load.drafts, None, "it does not draft");
        let about = about(BODY);
        assert_eq!((about.block_size, about.blocks), (Some(16), Some(27000)));
    }

    /// As vLLM 0.26.0 prints its counters.
    const DRAFTS: &str = "# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.\n\
        # TYPE vllm:spec_decode_num_drafts_total counter\n\
        vllm:spec_decode_num_drafts_total{engine=\"0\",model_name=\"m\"} 1000.0\n\
        # HELP vllm:spec_decode_num_drafts_created Number of spec decoding drafts.\n\
        # TYPE vllm:spec_decode_num_drafts_created gauge\n\
        vllm:spec_decode_num_drafts_created{engine=\"0\",model_name=\"m\"} 1.7e+09\n\
        vllm:spec_decode_num_draft_tokens_total{engine=\"0\",model_name=\"m\"} 3000.0\n\
        vllm:spec_decode_num_accepted_tokens_total{engine=\"0\",model_name=\"m\"} 1.5e+03\n\
        vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",model_name=\"m\",position=\"0\"} 720.0\n\
        vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",model_name=\"m\",position=\"1\"} 480.0\n\
        vllm:spec_decode_num_accepted_tokens_per_pos_total{engine=\"0\",model_name=\"m\",position=\"2\"} 300.0\n";

    #[test]
    fn a_vllm_that_drafts_counts_them() {
        let load = load(&format!("{BODY}{DRAFTS}")).unwrap();
        let Some(DraftReport::Totals(counts)) = load.drafts else {
            panic!("{load:?}");
        };
        let figures = (counts.drafts, counts.drafted_tokens, counts.accepted_tokens);
        assert_eq!(figures, (1000, 3000, 1500));
        let kept = counts.positions.iter().map(|position| {
            assert_eq!(position.drafted_tokens, 1000);
            position.accepted_tokens
        });
        assert_eq!(kept.collect::<Vec<u64>>(), [720, 480, 300]);
    }

    #[test]
    fn an_older_vllm_names_its_cache_otherwise() {
        let body = BODY.replace("kv_cache_usage_perc", "gpu_cache_usage_perc");
        assert_eq!(load(&body).unwrap().usage, 0.25);
        assert_eq!(load("nothing"), None);
    }
}
