//! What a GGUF file says of its model, and the names of its tensors.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Gguf, Value};
use crate::config::{Architecture, ModelConfig, RopePairs};
use crate::error::{ConfigError, Fault, GgufError, TensorFault, Unsupported};
use crate::format::Format;
use crate::{LoadError, Stored};

/// A vector that divides the frequencies of rotation.
const DIVISORS: &str = "rope_freqs.weight";
const EMBEDDINGS: &str = "token_embd.weight";
const OUTPUT: &str = "output.weight";

impl Gguf {
    /// The shape of the model, from metadata.
    pub fn config(&self) -> Result<ModelConfig, LoadError> {
        let read = Reader::new(self).and_then(|reader| reader.config());
        read.map_err(|fault| self.file.error(fault))
    }

    /// Tensors by Hugging Face's names. One that has none there is refused.
    pub(crate) fn hugging_face_tensors(&self) -> Result<BTreeMap<String, Stored>, LoadError> {
        let mut tensors = BTreeMap::new();
        for (name, placed) in &self.tensors {
            if name == DIVISORS {
                continue;
            }
            let stored = Stored {
                info: placed.info.clone(),
                file: 0,
                at: placed.at,
                bytes: placed.bytes,
            };
            let Some(name) = hugging_face_name(name) else {
                return Err(self.file.error(TensorFault::Unknown.of(name)));
            };
            tensors.insert(name, stored);
        }
        Ok(tensors)
    }
}

fn hugging_face_name(name: &str) -> Option<String> {
    match name {
        EMBEDDINGS => return Some("model.embed_tokens.weight".to_owned()),
        OUTPUT => return Some("lm_head.weight".to_owned()),
        "output_norm.weight" => return Some("model.norm.weight".to_owned()),
        _ => {}
    }
    let (layer, rest) = name.strip_prefix("blk.")?.split_once('.')?;
    let (part, kind) = rest.split_once('.')?;
    // A number in one spelling only, or two tensors could get one name.
    if layer.parse::<usize>().ok()?.to_string() != layer || !matches!(kind, "weight" | "bias") {
        return None;
    }
    let part = match part {
        "attn_norm" => "input_layernorm",
        "attn_q" => "self_attn.q_proj",
        "attn_k" => "self_attn.k_proj",
        "attn_v" => "self_attn.v_proj",
        "attn_output" => "self_attn.o_proj",
        "ffn_norm" => "post_attention_layernorm",
        "ffn_gate" => "mlp.gate_proj",
        "ffn_up" => "mlp.up_proj",
        "ffn_down" => "mlp.down_proj",
        _ => return None,
    };
    Some(format!("model.layers.{layer}.{part}.{kind}"))
}

/// Metadata under an architecture's prefix.
struct Reader<'a> {
    file: &'a Gguf,
    architecture: Architecture,
    prefix: &'a str,
}

impl<'a> Reader<'a> {
    fn new(file: &'a Gguf) -> Result<Self, Fault> {
        let key = "general.architecture";
        let Some(prefix) = file.metadata(key).and_then(Value::string) else {
            return Err(GgufError::Missing(key.to_owned()).into());
        };
        let architecture = match prefix {
            "llama" => Architecture::Llama,
            "qwen2" => Architecture::Qwen2,
            other => return Err(Unsupported::Architecture(other.to_owned()).into()),
        };
        Ok(Self {
            file,
            architecture,
            prefix,
        })
    }

    fn value(&self, key: &str) -> Option<(String, &'a Value)> {
        let key = format!("{}.{key}", self.prefix);
        let value = self.file.metadata(&key)?;
        Some((key, value))
    }

    /// What `read` makes of the value, if there is one.
    fn optional<T>(
        &self,
        key: &str,
        expected: &'static str,
        read: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some((key, value)) = self.value(key) else {
            return Ok(None);
        };
        let read = read(value).map(Some);
        read.ok_or(GgufError::WrongType { key, expected })
    }

    fn missing(&self, key: &str) -> GgufError {
        GgufError::Missing(format!("{}.{key}", self.prefix))
    }

    fn optional_count(&self, key: &str) -> Result<Option<usize>, GgufError> {
        self.optional(key, "a number that counts", |value| {
            usize::try_from(value.unsigned()?).ok()
        })
    }

    fn count(&self, key: &str) -> Result<usize, GgufError> {
        self.optional_count(key)?.ok_or_else(|| self.missing(key))
    }

    fn float(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.optional(key, "a float", |value| Some(value.float()? as f32))
    }

    fn config(&self) -> Result<ModelConfig, Fault> {
        self.refuse_what_we_lack()?;
        let heads = self.count("attention.head_count")?;
        let hidden = self.count("embedding_length")?;
        let head_size = self.head_size(hidden, heads)?;
        let epsilon = "attention.layer_norm_rms_epsilon";
        let config = ModelConfig {
            architecture: self.architecture,
            name: self.name(),
            layers: self.count("block_count")?,
            hidden,
            feed_forward: self.count("feed_forward_length")?,
            heads,
            kv_heads: self
                .optional_count("attention.head_count_kv")?
                .unwrap_or(heads),
            head_size,
            vocabulary: self.vocabulary()?,
            context: self.count("context_length")?,
            norm_epsilon: self.float(epsilon)?.ok_or_else(|| self.missing(epsilon))?,
            rope_theta: self.float("rope.freq_base")?.unwrap_or(10_000.0),
            rope_pairs: match self.architecture {
                Architecture::Llama => RopePairs::Neighbours,
                Architecture::Qwen2 => RopePairs::Halves,
            },
            rope_divisors: self.divisors()?,
            tied_embeddings: !self.file.tensors.contains_key(OUTPUT),
            qkv_bias: self.architecture == Architecture::Qwen2,
        };
        config.check()?;
        Ok(config)
    }

    fn name(&self) -> String {
        let said = self.file.metadata("general.name").and_then(Value::string);
        let said = said.map(str::to_owned).filter(|name| !name.is_empty());
        said.unwrap_or_else(|| {
            let path = Path::new(&self.file.file.name);
            let stem = path.file_stem().unwrap_or(path.as_os_str());
            stem.to_string_lossy().into_owned()
        })
    }

    /// What would compute something else with the same tensors.
    fn refuse_what_we_lack(&self) -> Result<(), Fault> {
        match self.optional("rope.scaling.type", "a string", Value::string)? {
            None | Some("none") => {}
            Some(other) => return Err(Unsupported::RotationScaling(other.to_owned()).into()),
        }
        if let Some(scale) = self.float("rope.scale_linear")?
            && scale != 1.0
        {
            return Err(Unsupported::LinearScaling(scale).into());
        }
        if self
            .optional_count("expert_count")?
            .is_some_and(|experts| experts > 0)
        {
            return Err(Unsupported::Experts.into());
        }
        let window = self.optional_count("attention.sliding_window")?;
        if let Some(window) = window.filter(|window| *window > 0)
            && window < self.count("context_length")?
        {
            return Err(Unsupported::SlidingWindow(window).into());
        }
        Ok(())
    }

    fn head_size(&self, hidden: usize, heads: usize) -> Result<usize, Fault> {
        let keys = self.optional_count("attention.key_length")?;
        let values = self.optional_count("attention.value_length")?;
        let even = (heads > 0 && hidden.is_multiple_of(heads)).then(|| hidden / heads);
        let Some(size) = keys.or(even) else {
            return Err(ConfigError::UnevenHeads { hidden, heads }.into());
        };
        if values.or(even).is_some_and(|values| values != size) {
            return Err(ConfigError::KeysUnlikeValues.into());
        }
        match self.optional_count("rope.dimension_count")? {
            Some(rotated) if rotated != size => {
                Err(Unsupported::RotatedComponents { rotated, size }.into())
            }
            Some(_) | None => Ok(size),
        }
    }

    /// The table of embeddings has a row for each token.
    fn vocabulary(&self) -> Result<usize, Fault> {
        let Some(table) = self.file.tensors.get(EMBEDDINGS) else {
            return Err(Fault::NoTensor(EMBEDDINGS.to_owned()));
        };
        let rows = table.info.rows;
        match self.optional_count("vocab_size")? {
            Some(size) if size != rows => Err(ConfigError::Vocabulary {
                size,
                table: EMBEDDINGS,
                rows,
            }
            .into()),
            Some(_) | None => Ok(rows),
        }
    }

    fn divisors(&self) -> Result<Option<Vec<f32>>, Fault> {
        let Some(placed) = self.file.tensors.get(DIVISORS) else {
            return Ok(None);
        };
        if placed.info.format != Format::F32 || placed.info.rows != 1 {
            return Err(TensorFault::NotVector.of(DIVISORS));
        }
        let mut bytes = Vec::new();
        let read = self.file.file.read(placed.at, placed.bytes, &mut bytes);
        read.map_err(|error| Fault::TensorRead {
            name: DIVISORS.to_owned(),
            error,
        })?;
        let mut divisors = vec![0.0; placed.info.columns];
        Format::F32.dequantise(&bytes, &mut divisors);
        Ok(Some(divisors))
    }
}
