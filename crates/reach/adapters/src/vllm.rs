//! vLLM: events over ZeroMQ, load in Prometheus' text format.

use contract::GenerateRequest;

use crate::dialect::{CacheEvents, Dialect, Report, USUAL_ENDPOINTS};
use crate::extensions::Extensions;
use crate::figures::{About, Load, count, label, series, sum};
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
    })
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
        let about = about(BODY);
        assert_eq!((about.block_size, about.blocks), (Some(16), Some(27000)));
    }

    #[test]
    fn an_older_vllm_names_its_cache_otherwise() {
        let body = BODY.replace("kv_cache_usage_perc", "gpu_cache_usage_perc");
        assert_eq!(load(&body).unwrap().usage, 0.25);
        assert_eq!(load("nothing"), None);
    }
}
