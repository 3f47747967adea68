//! SGLang: vLLM's events, load in Prometheus' text format, configuration as JSON.

use contract::GenerateRequest;
use serde_json::Value;

use crate::dialect::{CacheEvents, Dialect, Report, USUAL_ENDPOINTS};
use crate::extensions::Extensions;
use crate::figures::{About, Load, count, number, sum};
use crate::wire::msgpack;

pub(crate) const DIALECT: Dialect = Dialect {
    name: "sglang",
    extensions,
    // Alternatives are named by their text only.
    logprobs: false,
    cache_salt: true,
    omits_zero_cached: true,
    events: CacheEvents::Published {
        decode: msgpack::decode,
    },
    load: Some(Report {
        paths: &["/metrics"],
        read: load,
    }),
    about: Some(Report {
        // The second name is that of older releases.
        paths: &["/server_info", "/get_server_info"],
        read: about,
    }),
    forwards: USUAL_ENDPOINTS,
    reset_path: Some("/flush_cache"),
    reset_hint: "",
};

fn extensions(request: &GenerateRequest) -> Extensions<'_> {
    Extensions {
        return_token_ids: Some(true),
        ..Extensions::sampling(request)
    }
}

fn load(body: &str) -> Option<Load> {
    Some(Load {
        running: count(sum(body, "sglang:num_running_reqs")?),
        waiting: count(sum(body, "sglang:num_queue_reqs")?),
        usage: sum(body, "sglang:token_usage").unwrap_or(0.0),
        // It reports means of the latest drafts, and no counts.
        drafts: None,
    })
}

fn about(body: &str) -> About {
    let info: Option<Value> = serde_json::from_str(body).ok();
    let info = info.as_ref();
    let block_size = number(info, "page_size");
    let tokens = number(info, "max_total_num_tokens");
    let blocks = match (tokens, block_size) {
        (Some(tokens), Some(size)) => tokens.checked_div(size),
        (Some(_) | None, _) => None,
    };
    About {
        block_size,
        blocks,
        slots: number(info, "max_running_requests"),
        ..About::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_and_configuration_come_from_two_places() {
        let body = "sglang:num_running_reqs{tp_rank=\"0\"} 1\nsglang:num_queue_reqs 4\n\
                    sglang:token_usage{tp_rank=\"0\"} 0.5\n";
        let load = load(body).unwrap();
        assert_eq!((load.running, load.waiting, load.usage), (1, 4, 0.5));
        let info = r#"{"page_size":32,"max_total_num_tokens":6400,"max_running_requests":48}"#;
        let found = about(info);
        let found = (found.block_size, found.blocks, found.slots);
        assert_eq!(found, (Some(32), Some(200), Some(48)));
        assert_eq!(about("no"), About::default());
    }
}
