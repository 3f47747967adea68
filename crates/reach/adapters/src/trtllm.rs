//! TensorRT-LLM: events when asked, load and configuration in the JSON of its latest steps.

use contract::GenerateRequest;
use serde_json::Value;

use crate::dialect::{CacheEvents, Dialect, Report, USUAL_ENDPOINTS};
use crate::drafts::{DraftReport, DraftedStep};
use crate::extensions::Extensions;
use crate::figures::{About, Load, count, number};
use crate::wire;

const METRICS: &[&str] = &["/metrics"];

pub(crate) const DIALECT: Dialect = Dialect {
    name: "trtllm",
    extensions,
    logprobs: false,
    cache_salt: false,
    omits_zero_cached: false,
    events: CacheEvents::Polled {
        path: "/kv_cache_events",
        decode: wire::trtllm::decode,
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
    reset_path: None,
    reset_hint: "",
};

fn extensions(request: &GenerateRequest) -> Extensions<'_> {
    Extensions {
        // It returns either text or token ids.
        detokenize: Some(false),
        ..Extensions::sampling(request)
    }
}

fn load(body: &str) -> Option<Load> {
    let steps = steps(body)?;
    let step = steps.last()?;
    let cache = step.get("kvCacheStats");
    let blocks = |name| cache?.get(name)?.as_f64();
    let usage = match (blocks("usedNumBlocks"), blocks("maxNumBlocks")) {
        (Some(used), Some(most)) if most > 0.0 => used / most,
        (_, _) => 0.0,
    };
    let waiting = step.get("numQueuedRequests").and_then(Value::as_f64);
    Some(Load {
        running: count(step.get("numActiveRequests")?.as_f64()?),
        waiting: count(waiting.unwrap_or(0.0)),
        usage,
        drafts: drafts(&steps),
    })
}

/// Each step reports its own drafts, and each report the steps since the one before.
fn drafts(steps: &[Value]) -> Option<DraftReport> {
    let drafted = steps.iter().filter_map(|step| {
        let found = step.get("specDecodingStats")?;
        let count = |name| found.get(name).and_then(Value::as_u64);
        Some(DraftedStep {
            number: step.get("iter")?.as_u64()?,
            drafts: count("numRequestsWithDraftTokens")?,
            drafted_tokens: count("numDraftTokens")?,
            accepted_tokens: count("numAcceptedTokens")?,
        })
    });
    let drafted: Vec<DraftedStep> = drafted.collect();
    (!drafted.is_empty()).then_some(DraftReport::Steps(drafted))
}

fn about(body: &str) -> About {
    let step = steps(body).and_then(|mut steps| steps.pop());
    let cache = step.as_ref().and_then(|step| step.get("kvCacheStats"));
    About {
        block_size: number(cache, "tokensPerBlock"),
        blocks: number(cache, "maxNumBlocks"),
        slots: number(step.as_ref(), "maxBatchSizeStatic"),
        ..About::default()
    }
}

/// The latest is the last.
fn steps(body: &str) -> Option<Vec<Value>> {
    serde_json::from_str(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensorrt_llm_gives_its_last_steps() {
        let body = r#"[{"iter":1},{"iter":2,"numActiveRequests":5,"numQueuedRequests":1,
            "kvCacheStats":{"usedNumBlocks":10,"maxNumBlocks":40,"tokensPerBlock":32}}]"#;
        let found = load(body).unwrap();
        assert_eq!((found.running, found.waiting, found.usage), (5, 1, 0.25));
        let about = about(body);
        assert_eq!((about.block_size, about.blocks), (Some(32), Some(40)));
        assert_eq!(found.drafts, None, "it does not draft");
        assert_eq!(load("[]"), None);
    }

    #[test]
    fn drafts_are_of_every_step() {
        let body = r#"[
            {"iter":7,"numActiveRequests":2,"specDecodingStats":{"numDraftTokens":6,"numAcceptedTokens":4,
             "numRequestsWithDraftTokens":2,"acceptanceLength":3.0,"iterLatencyMS":1.5,"draftOverhead":0.2}},
            {"iter":8,"numActiveRequests":2},
            {"iter":9,"numActiveRequests":1,"specDecodingStats":{"numDraftTokens":3,"numAcceptedTokens":0,
             "numRequestsWithDraftTokens":1,"acceptanceLength":1.0,"iterLatencyMS":1.5,"draftOverhead":0.2}}]"#;
        let step = |number, drafts, drafted_tokens, accepted_tokens| DraftedStep {
            number,
            drafts,
            drafted_tokens,
            accepted_tokens,
        };
        let expected = DraftReport::Steps(vec![step(7, 2, 6, 4), step(9, 1, 3, 0)]);
        assert_eq!(load(body).unwrap().drafts, Some(expected));
    }
}
