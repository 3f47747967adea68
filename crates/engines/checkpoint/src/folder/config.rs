//! `config.json` of Hugging Face: old and new spellings, and what is refused.

use std::f64::consts::PI;

use serde::Deserialize;

use super::quantization;
use crate::config::{Architecture, ModelConfig, RopePairs};
use crate::error::{ConfigError, Fault, Unsupported};

/// What is read of it. Fields that change what is computed and that we lack are refused.
#[derive(Deserialize)]
struct Fields {
    #[serde(default)]
    architectures: Option<Vec<String>>,
    model_type: Option<String>,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    rope_parameters: Option<Rope>,
    rope_scaling: Option<Rope>,
    tie_word_embeddings: Option<bool>,
    hidden_act: Option<String>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    use_sliding_window: Option<bool>,
    sliding_window: Option<usize>,
    max_window_layers: Option<usize>,
    layer_types: Option<Vec<String>>,
    partial_rotary_factor: Option<f64>,
    quantization_config: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct Rope {
    rope_theta: Option<f64>,
    rope_type: Option<String>,
    /// What the type was called before.
    r#type: Option<String>,
    partial_rotary_factor: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
}

impl ModelConfig {
    /// From the bytes of a `config.json`; the model is called `name`. Or why it cannot be used.
    pub fn from_config_json(name: &str, json: &[u8]) -> Result<Self, Fault> {
        let fields: Fields = serde_json::from_slice(json)?;
        let architecture = architecture(&fields)?;
        refuse_what_we_lack(&fields, architecture)?;
        let heads = fields.num_attention_heads;
        let even = (heads > 0).then(|| fields.hidden_size / heads);
        let head_size = fields.head_dim.or(even).unwrap_or_default();
        let (rope_theta, rope_divisors) = rope(&fields, head_size)?;
        let config = Self {
            architecture,
            name: name.to_owned(),
            layers: fields.num_hidden_layers,
            hidden: fields.hidden_size,
            feed_forward: fields.intermediate_size,
            heads,
            kv_heads: fields.num_key_value_heads.unwrap_or(heads),
            head_size,
            vocabulary: fields.vocab_size,
            context: fields.max_position_embeddings,
            norm_epsilon: fields.rms_norm_eps as f32,
            rope_theta: rope_theta as f32,
            rope_pairs: RopePairs::Halves,
            rope_divisors,
            tied_embeddings: fields.tie_word_embeddings.unwrap_or(false),
            qkv_bias: architecture == Architecture::Qwen2,
        };
        config.check()?;
        Ok(config)
    }
}

/// The class and the type must speak of the same; one of them may be missing.
fn architecture(fields: &Fields) -> Result<Architecture, Fault> {
    let class = match fields.architectures.as_deref() {
        None | Some([]) => None,
        Some([class]) if class == "LlamaForCausalLM" => Some(Architecture::Llama),
        Some([class]) if class == "Qwen2ForCausalLM" => Some(Architecture::Qwen2),
        Some(other) => return Err(Unsupported::Class(other.join(", ")).into()),
    };
    let kind = match fields.model_type.as_deref() {
        None => None,
        Some("llama") => Some(Architecture::Llama),
        Some("qwen2") => Some(Architecture::Qwen2),
        Some(other) => return Err(Unsupported::Type(other.to_owned()).into()),
    };
    match (class, kind) {
        (Some(class), Some(kind)) if class != kind => Err(ConfigError::Contradiction.into()),
        (Some(found), _) | (None, Some(found)) => Ok(found),
        (None, None) => Err(ConfigError::NoArchitecture.into()),
    }
}

fn refuse_what_we_lack(fields: &Fields, architecture: Architecture) -> Result<(), Unsupported> {
    if let Some(quantization) = &fields.quantization_config {
        quantization::check(quantization)?;
    }
    match fields.hidden_act.as_deref() {
        None | Some("silu") => {}
        Some(other) => return Err(Unsupported::Activation(other.to_owned())),
    }
    for (what, set) in [
        ("attention_bias", fields.attention_bias),
        ("mlp_bias", fields.mlp_bias),
    ] {
        if set == Some(true) {
            return Err(Unsupported::Bias(what));
        }
    }
    let rotated = [
        fields.partial_rotary_factor,
        fields
            .rope_parameters
            .as_ref()
            .and_then(|rope| rope.partial_rotary_factor),
        fields
            .rope_scaling
            .as_ref()
            .and_then(|rope| rope.partial_rotary_factor),
    ];
    if rotated.into_iter().flatten().any(|part| part != 1.0) {
        return Err(Unsupported::PartialRotation);
    }
    if has_window(fields, architecture) {
        return Err(Unsupported::SlidingWindows);
    }
    Ok(())
}

/// Whether any layer looks back less far than the context.
fn has_window(fields: &Fields, architecture: Architecture) -> bool {
    if let Some(types) = &fields.layer_types {
        return types.iter().any(|kind| kind != "full_attention");
    }
    let shorter = fields
        .sliding_window
        .is_some_and(|window| window < fields.max_position_embeddings);
    match architecture {
        Architecture::Llama => shorter,
        // Only layers above the limit, whose default is transformers' own.
        Architecture::Qwen2 => {
            shorter
                && fields.use_sliding_window.unwrap_or(false)
                && fields.max_window_layers.unwrap_or(28) < fields.num_hidden_layers
        }
    }
}

/// The base of rotation, and what its frequencies are divided by.
fn rope(fields: &Fields, head_size: usize) -> Result<(f64, Option<Vec<f32>>), Fault> {
    let rope = fields
        .rope_scaling
        .as_ref()
        .or(fields.rope_parameters.as_ref());
    let inner = [&fields.rope_scaling, &fields.rope_parameters]
        .into_iter()
        .flatten()
        .find_map(|rope| rope.rope_theta);
    let theta = inner.or(fields.rope_theta).unwrap_or(10_000.0);
    let Some(rope) = rope else {
        return Ok((theta, None));
    };
    let kind = rope.rope_type.as_deref().or(rope.r#type.as_deref());
    match kind {
        None | Some("default") => Ok((theta, None)),
        Some("llama3") => {
            let divisors = llama3_divisors(rope, theta, head_size)?;
            Ok((theta, Some(divisors)))
        }
        Some(other) => Err(Unsupported::RotationScaling(other.to_owned()).into()),
    }
}

/// Llama 3.1's scaling: short waves stay, long ones are stretched, between them it is blended.
fn llama3_divisors(rope: &Rope, theta: f64, head_size: usize) -> Result<Vec<f32>, ConfigError> {
    let positive = |number: Option<f64>, what| {
        number
            .filter(|number| number.is_finite() && *number > 0.0)
            .ok_or(ConfigError::Llama3NotPositive(what))
    };
    let factor = positive(rope.factor, "factor")?;
    let low = positive(rope.low_freq_factor, "low_freq_factor")?;
    let high = positive(rope.high_freq_factor, "high_freq_factor")?;
    let context = positive(
        rope.original_max_position_embeddings,
        "original_max_position_embeddings",
    )?;
    if low >= high {
        return Err(ConfigError::Llama3Order);
    }
    // A hostile head size is refused later; it must not be allocated here.
    if head_size > 1 << 16 {
        return Err(ConfigError::OutOfRange {
            what: "head size",
            value: head_size.to_string(),
        });
    }
    let divisor = |i: usize| {
        let frequency = theta.powf(-((2 * i) as f64) / head_size as f64);
        let wave = 2.0 * PI / frequency;
        if wave < context / high {
            1.0
        } else if wave > context / low {
            factor
        } else {
            let smooth = (context / wave - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    Ok((0..head_size / 2).map(|i| divisor(i) as f32).collect())
}
