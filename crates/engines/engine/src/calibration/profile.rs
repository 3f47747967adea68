//! Writes a profile file from measured constants.

use super::Fit;
use crate::executor::Limits;

/// What a profile says beside its times.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    pub about: &'a str,
    pub model: &'a str,
    pub workers: u32,
    /// What the model runs on, such as "CPU (avx512)".
    pub device: &'a str,
    /// How the times were measured.
    pub method: &'a str,
    pub limits: &'a Limits,
    /// What part of a step's time it takes while one, two, … workers compute; empty for one.
    pub shares: &'a [f64],
    pub origins: Origins,
}

/// Where the sizes of a worker's memory are from.
#[derive(Clone, Copy, Debug)]
pub struct Origins {
    pub memory: &'static str,
    pub weights: &'static str,
    pub kv_per_token: &'static str,
}

impl Origins {
    /// The worker is ours.
    pub const OWN: Self = Self {
        memory: "the worker's own: weights and cache",
        weights: "as loaded",
        kv_per_token: "keys and values of one token in all layers",
    };
    /// The worker is known through its API alone, which counts its cache in blocks.
    pub const API: Self = Self {
        memory: "not told by its API: the cache alone, in tokens",
        weights: "not told by its API",
        kv_per_token: "not told by its API: one unit for each token",
    };
}

/// The text of a profile.
pub fn profile(facts: &Facts<'_>, fit: &Fit) -> String {
    let Limits {
        block_size,
        total_blocks,
        slots,
        max_step_tokens,
        max_context_tokens,
        intake_steps,
        resident_bytes,
        block_bytes,
        ..
    } = facts.limits;
    // Half a block more, so that rounding does not cost a whole one.
    let memory = resident_bytes + block_bytes * u64::from(*total_blocks) + block_bytes / 2;
    let kv_per_token = *block_bytes as f64 / f64::from(*block_size);
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    let (about, model) = (quoted(facts.about), quoted(facts.model));
    let (device, method) = (quoted(facts.device), quoted(facts.method));
    let workers = facts.workers;
    let Origins {
        memory: memory_origin,
        weights: weights_origin,
        kv_per_token: kv_origin,
    } = facts.origins;
    let shared_machine = shared_machine(facts.shares, &method);
    let to_limit = "assumed: answers run to the limit that requests set";
    let timing = &fit.timing;
    let overlaps = timing.overlaps;
    let [base, per_token, per_sequence] =
        [timing.base, timing.per_token, timing.per_sequence].map(|seconds| seconds * 1e6);
    let [per_context_token, per_pair] =
        [timing.per_context_token, timing.attention_per_pair].map(|seconds| seconds * 1e9);
    format!(
        r#"about = {about}
model = {model}
workers = {workers}

[gpu]
kind = {device}
count = 1
memory = {{ value = {memory}, unit = "B", origin = "{memory_origin}" }}

[engine]
slots = {slots}
max_step_tokens = {max_step_tokens}
max_context_tokens = {max_context_tokens}
block_size = {block_size}

[memory]
weights = {{ value = {resident_bytes}, unit = "B", origin = "{weights_origin}" }}
overhead_per_gpu = {{ value = 0, unit = "B", origin = "counted with the weights" }}
usable_fraction = {{ value = 1, unit = "ratio", origin = "the cache is what was asked for" }}
free_gpu_memory_fraction = {{ value = 1, unit = "ratio", origin = "the cache is what was asked for" }}
kv_per_token = {{ value = {kv_per_token}, unit = "B", origin = "{kv_origin}" }}

[timing]
base = {{ value = {base:.3}, unit = "us", origin = {method} }}
per_token = {{ value = {per_token:.3}, unit = "us", origin = {method} }}
overlaps = {overlaps}
per_sequence = {{ value = {per_sequence:.3}, unit = "us", origin = {method} }}
per_context_token = {{ value = {per_context_token:.3}, unit = "ns", origin = {method} }}
attention_per_pair = {{ value = {per_pair:.3}, unit = "ns", origin = {method} }}
intake = {{ value = {intake_steps}, unit = "steps", origin = {method} }}
{shared_machine}
[answers]
mean = {{ value = {max_context_tokens}, unit = "tokens", origin = "{to_limit}" }}
spread = {{ value = 0, unit = "tokens", origin = "{to_limit}" }}
min = {{ value = {max_context_tokens}, unit = "tokens", origin = "{to_limit}" }}
max = {{ value = {max_context_tokens}, unit = "tokens", origin = "{to_limit}" }}
"#
    )
}

fn shared_machine(shares: &[f64], method: &str) -> String {
    let shares: Vec<String> = shares.iter().map(|part| format!("{part:.3}")).collect();
    match shares.is_empty() {
        true => String::new(),
        false => format!(
            "shared_machine = {{ values = [{}], origin = {method} }}\n",
            shares.join(", ")
        ),
    }
}
