//! What an engine says about itself: how busy it is, and what it is.
//!
//! Prometheus text (vLLM, SGLang), JSON (TensorRT-LLM, `/server_info`, `/v1/models`). Whatever
//! is missing stays unknown.

use serde_json::Value;

use crate::spec::EngineKind;

/// How busy an engine is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    pub running: u32,
    pub waiting: u32,
    /// Share of the KV memory in use, 0 to 1.
    pub usage: f64,
}

/// What an engine is, as far as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The first model it serves.
    pub model: Option<String>,
    pub max_context_tokens: Option<u32>,
    pub block_size: Option<u32>,
    pub blocks: Option<u32>,
    pub slots: Option<u32>,
}

impl About {
    /// What `self` does not know, `other` may.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            model: self.model.or(other.model),
            max_context_tokens: self.max_context_tokens.or(other.max_context_tokens),
            block_size: self.block_size.or(other.block_size),
            blocks: self.blocks.or(other.blocks),
            slots: self.slots.or(other.slots),
        }
    }
}

/// Reads an answer of `/metrics`.
pub fn load(kind: EngineKind, body: &str) -> Option<Load> {
    match kind {
        EngineKind::Vllm => {
            let usage = sum(body, "vllm:kv_cache_usage_perc");
            Some(Load {
                running: count(sum(body, "vllm:num_requests_running")?),
                waiting: count(sum(body, "vllm:num_requests_waiting")?),
                usage: usage
                    .or_else(|| sum(body, "vllm:gpu_cache_usage_perc"))
                    .unwrap_or(0.0),
            })
        }
        EngineKind::Sglang => Some(Load {
            running: count(sum(body, "sglang:num_running_reqs")?),
            waiting: count(sum(body, "sglang:num_queue_reqs")?),
            usage: sum(body, "sglang:token_usage").unwrap_or(0.0),
        }),
        EngineKind::Trtllm => {
            let latest = iteration(body)?;
            let cache = latest.get("kvCacheStats");
            let blocks = |name| cache?.get(name)?.as_f64();
            let usage = match (blocks("usedNumBlocks"), blocks("maxNumBlocks")) {
                (Some(used), Some(most)) if most > 0.0 => used / most,
                _ => 0.0,
            };
            Some(Load {
                running: count(latest.get("numActiveRequests")?.as_f64()?),
                waiting: count(
                    latest
                        .get("numQueuedRequests")
                        .and_then(Value::as_f64)
                        .unwrap_or(0.0),
                ),
                usage,
            })
        }
        EngineKind::Openai => None,
    }
}

/// What an engine is, from an answer of `/metrics`.
pub fn about_from_metrics(kind: EngineKind, body: &str) -> About {
    match kind {
        EngineKind::Vllm => {
            let label = |name| {
                let line = lines(body, "vllm:cache_config_info").next()?;
                self::label(line, name)?.parse().ok()
            };
            About {
                block_size: label("block_size"),
                blocks: label("num_gpu_blocks"),
                ..About::default()
            }
        }
        EngineKind::Trtllm => {
            let latest = iteration(body);
            let cache = latest
                .as_ref()
                .and_then(|latest| latest.get("kvCacheStats"));
            About {
                block_size: number(cache, "tokensPerBlock"),
                blocks: number(cache, "maxNumBlocks"),
                slots: number(latest.as_ref(), "maxBatchSizeStatic"),
                ..About::default()
            }
        }
        EngineKind::Sglang | EngineKind::Openai => About::default(),
    }
}

/// What an engine is, from SGLang's `/server_info`.
pub fn about_from_server_info(body: &[u8]) -> About {
    let info: Option<Value> = serde_json::from_slice(body).ok();
    let info = info.as_ref();
    let block_size = number(info, "page_size");
    let tokens = number(info, "max_total_num_tokens");
    About {
        block_size,
        blocks: tokens
            .zip(block_size)
            .and_then(|(tokens, size): (u32, u32)| tokens.checked_div(size)),
        slots: number(info, "max_running_requests"),
        ..About::default()
    }
}

/// What an engine is, from `/v1/models`.
pub fn about_from_models(body: &[u8]) -> About {
    let list: Option<Value> = serde_json::from_slice(body).ok();
    let first = list.as_ref().and_then(|list| list.get("data")?.get(0));
    let id = first.and_then(|model| model.get("id")?.as_str());
    About {
        model: id.map(str::to_owned),
        max_context_tokens: number(first, "max_model_len"),
        ..About::default()
    }
}

fn number(value: Option<&Value>, name: &str) -> Option<u32> {
    let number = value?.get(name)?.as_u64()?;
    u32::try_from(number).ok().filter(|number| *number > 0)
}

/// TensorRT-LLM's latest step.
fn iteration(body: &str) -> Option<Value> {
    let steps: Value = serde_json::from_str(body).ok()?;
    steps.as_array()?.last().cloned()
}

/// The sum over all series of a metric.
fn sum(body: &str, metric: &str) -> Option<f64> {
    let values = lines(body, metric).filter_map(|line| {
        let value = line.rsplit_once('}').map_or(line, |(_, value)| value);
        value.split_whitespace().next()?.parse::<f64>().ok()
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

/// The lines of a metric without its name.
fn lines<'a>(body: &'a str, metric: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = body
        .lines()
        .filter_map(move |line| line.strip_prefix(metric));
    lines.filter(|rest| rest.starts_with(['{', ' ']))
}

fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}

fn count(value: f64) -> u32 {
    if value.is_finite() {
        value.max(0.0) as u32
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VLLM: &str = "# HELP vllm:num_requests_running Number of requests\n\
        # TYPE vllm:num_requests_running gauge\n\
        vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3.0\n\
        vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 2.0\n\
        vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} 9.0\n\
        vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.25\n\
        vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\",num_gpu_blocks=\"27000\"} 1.0\n";

    #[test]
    fn vllm_speaks_prometheus() {
        let load = load(EngineKind::Vllm, VLLM).unwrap();
        assert_eq!((load.running, load.waiting, load.usage), (3, 2, 0.25));
        let about = about_from_metrics(EngineKind::Vllm, VLLM);
        assert_eq!((about.block_size, about.blocks), (Some(16), Some(27000)));
    }

    #[test]
    fn an_older_vllm_names_its_cache_otherwise() {
        let body = VLLM.replace("kv_cache_usage_perc", "gpu_cache_usage_perc");
        assert_eq!(load(EngineKind::Vllm, &body).unwrap().usage, 0.25);
        assert_eq!(load(EngineKind::Vllm, "nothing"), None);
    }

    #[test]
    fn sglang_says_what_it_is_elsewhere() {
        let body = "sglang:num_running_reqs{tp_rank=\"0\"} 1\nsglang:num_queue_reqs 4\n\
                    sglang:token_usage{tp_rank=\"0\"} 0.5\n";
        let load = load(EngineKind::Sglang, body).unwrap();
        assert_eq!((load.running, load.waiting, load.usage), (1, 4, 0.5));
        let info = br#"{"page_size":32,"max_total_num_tokens":6400,"max_running_requests":48}"#;
        let about = about_from_server_info(info);
        let said = (about.block_size, about.blocks, about.slots);
        assert_eq!(said, (Some(32), Some(200), Some(48)));
        assert_eq!(about_from_server_info(b"no"), About::default());
    }

    #[test]
    fn tensorrt_llm_gives_its_last_steps() {
        let body = r#"[{"iter":1},{"iter":2,"numActiveRequests":5,"numQueuedRequests":1,
            "kvCacheStats":{"usedNumBlocks":10,"maxNumBlocks":40,"tokensPerBlock":32}}]"#;
        let load = load(EngineKind::Trtllm, body).unwrap();
        assert_eq!((load.running, load.waiting, load.usage), (5, 1, 0.25));
        let about = about_from_metrics(EngineKind::Trtllm, body);
        assert_eq!((about.block_size, about.blocks), (Some(32), Some(40)));
        assert_eq!(self::load(EngineKind::Trtllm, "[]"), None);
    }

    #[test]
    fn models_are_listed_everywhere() {
        let body = br#"{"object":"list","data":[{"id":"org/m","max_model_len":8192}]}"#;
        let about = about_from_models(body);
        assert_eq!(about.model.as_deref(), Some("org/m"));
        assert_eq!(about.max_context_tokens, Some(8192));
    }
}
