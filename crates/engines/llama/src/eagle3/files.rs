//! A head's files: `config.json` and `model.safetensors`, in both public styles.

use std::path::{Path, PathBuf};

use contract::TokenId;
use serde::Deserialize;
use serde_json::Value;

use super::HeadWeights;
use crate::checkpoint::{Dtype, LoadError, SafeTensors};
use crate::config::ModelConfig;
use crate::layout::LANES;
use crate::matrix::{Matrix, MatrixError, Packer};
use crate::weights::{Layer, WeightsError};

/// What is read of the configuration beside the layer's shape.
#[derive(Deserialize)]
struct Fields {
    draft_vocab_size: Option<usize>,
    target_hidden_size: Option<usize>,
    #[serde(alias = "aux_hidden_state_layer_ids")]
    eagle_aux_hidden_state_layer_ids: Option<Vec<usize>>,
    #[serde(default)]
    norm_before_residual: bool,
    #[serde(default)]
    norm_before_fc: bool,
    #[serde(default)]
    fc_norm: bool,
    #[serde(default)]
    norm_output: bool,
    /// Where the speculators library keeps the shape.
    transformer_layer_config: Option<Value>,
}

/// An opened head.
#[derive(Debug)]
pub struct HeadFiles {
    path: PathBuf,
    config: ModelConfig,
    fields_taps: Option<Vec<usize>>,
    draft_vocabulary: Option<usize>,
    target_hidden: usize,
    norm_before_residual: bool,
    tensors: SafeTensors,
    /// What the layer's names begin with.
    prefix: &'static str,
}

impl HeadFiles {
    /// A folder.
    pub fn open(folder: &Path) -> Result<Self, LoadError> {
        let path = folder.join("config.json");
        let error = |detail: String| LoadError::File {
            file: path.display().to_string(),
            detail,
        };
        let json = std::fs::read(&path).map_err(|reason| error(reason.to_string()))?;
        let fields: Fields =
            serde_json::from_slice(&json).map_err(|reason| error(reason.to_string()))?;
        let unsupported = [
            (fields.norm_before_fc, "norm_before_fc"),
            (fields.fc_norm, "fc_norm"),
            (fields.norm_output, "norm_output"),
        ];
        if let Some((_, name)) = unsupported.iter().find(|(set, _)| *set) {
            return Err(error(format!("heads with {name} are not supported")));
        }
        let config = shape(&json, fields.transformer_layer_config).map_err(error)?;
        let tensors = SafeTensors::open(&folder.join("model.safetensors"))?;
        let prefix = ["midlayer.", "layers.0."]
            .into_iter()
            .find(|prefix| {
                tensors
                    .tensor(&format!("{prefix}hidden_norm.weight"))
                    .is_some()
            })
            .ok_or_else(|| {
                error("its weights have neither midlayer.* nor layers.0.*".to_owned())
            })?;
        Ok(Self {
            path: folder.to_owned(),
            target_hidden: fields.target_hidden_size.unwrap_or(config.hidden),
            config,
            fields_taps: fields.eagle_aux_hidden_state_layer_ids,
            draft_vocabulary: fields.draft_vocab_size,
            norm_before_residual: fields.norm_before_residual,
            tensors,
            prefix,
        })
    }

    /// Layers of a target that are tapped.
    pub fn taps(&self, target: &ModelConfig) -> Vec<usize> {
        let usual = || vec![2, target.layers / 2, target.layers.saturating_sub(3)];
        self.fields_taps.clone().unwrap_or_else(usual)
    }

    /// Reads the weights of a head for `target`.
    pub(crate) fn load(&self, target: &ModelConfig) -> Result<HeadWeights, WeightsError> {
        let config = &self.config;
        let taps = self.taps(target);
        self.check(target, &taps)?;
        let (hidden, size) = (config.hidden, config.head_size);
        let layer = |part: &str| format!("{}{part}", self.prefix);
        let projection = |name: &str, heads: usize| {
            self.matrix(
                &layer(&format!("self_attn.{name}_proj.weight")),
                heads * size,
                2 * hidden,
            )
        };
        let mlp = |name: &str, rows, columns| {
            self.matrix(&layer(&format!("mlp.{name}_proj.weight")), rows, columns)
        };
        let tokens = self.tokens(target.vocabulary)?;
        Ok(HeadWeights {
            target_hidden: self.target_hidden,
            norm_before_residual: self.norm_before_residual,
            fuse: self.matrix("fc.weight", hidden, taps.len() * self.target_hidden)?,
            hidden_norm: self.vector(&layer("hidden_norm.weight"))?,
            layer: Layer {
                attention_norm: self.vector(&layer("input_layernorm.weight"))?,
                qkv: [
                    projection("q", config.heads)?,
                    projection("k", config.kv_heads)?,
                    projection("v", config.kv_heads)?,
                ],
                qkv_bias: None,
                attention_output: self.matrix(
                    &layer("self_attn.o_proj.weight"),
                    hidden,
                    config.heads * size,
                )?,
                feed_forward_norm: self.vector(&layer("post_attention_layernorm.weight"))?,
                gate: mlp("gate", config.feed_forward, hidden)?,
                up: mlp("up", config.feed_forward, hidden)?,
                down: mlp("down", hidden, config.feed_forward)?,
            },
            norm: self.vector("norm.weight")?,
            output: self.matrix("lm_head.weight", tokens.len(), hidden)?,
            config: ModelConfig {
                vocabulary: tokens.len(),
                ..config.clone()
            },
            tokens,
            taps,
            embeddings: self.embeddings(target)?,
        })
    }

    /// Whether it can be a head of `target`.
    fn check(&self, target: &ModelConfig, taps: &[usize]) -> Result<(), WeightsError> {
        let ascending = taps.windows(2).all(|pair| pair[0] < pair[1]);
        if taps.is_empty() || !ascending || taps.iter().any(|tap| *tap >= target.layers) {
            return Err(self.unfit(format!(
                "its taps {taps:?} are not layers of a model that has {}",
                target.layers
            )));
        }
        if self.target_hidden != target.hidden {
            return Err(self.unfit(format!(
                "it is for a model of width {}, not {}",
                self.target_hidden, target.hidden
            )));
        }
        Ok(())
    }

    /// Its own; `None` where it takes the target's.
    fn embeddings(&self, target: &ModelConfig) -> Result<Option<Matrix>, WeightsError> {
        const NAME: &str = "embed_tokens.weight";
        let hidden = self.config.hidden;
        if self.tensors.tensor(NAME).is_some() {
            return self.matrix(NAME, target.vocabulary, hidden).map(Some);
        }
        if hidden != target.hidden {
            return Err(self.unfit(format!(
                "it has no embeddings, and the model's are {} wide, not {hidden}",
                target.hidden
            )));
        }
        Ok(None)
    }

    fn unfit(&self, detail: String) -> WeightsError {
        WeightsError::Load(LoadError::File {
            file: self.path.display().to_string(),
            detail,
        })
    }

    fn matrix(&self, name: &str, rows: usize, columns: usize) -> Result<Matrix, WeightsError> {
        let mut bytes = Vec::new();
        let info = self.tensors.read(name, &mut bytes)?.info();
        let info = info.map_err(|reason| self.unfit(format!("tensor {name} {reason}")))?;
        if (info.rows, info.columns) != (rows, columns) {
            return Err(self.unfit(format!(
                "tensor {name} is {} x {}, not {rows} x {columns}",
                info.rows, info.columns
            )));
        }
        let mut packer = Packer::new(info.format, rows, columns);
        let packed = packer.rows(0, &bytes);
        packed.map_err(|error| WeightsError::Tensor {
            tensor: name.to_owned(),
            error,
        })?;
        Ok(packer.finish())
    }

    fn vector(&self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let mut bytes = Vec::new();
        let info = self.tensors.read(name, &mut bytes)?.info();
        let info = info.map_err(|reason| self.unfit(format!("tensor {name} {reason}")))?;
        if info.rows * info.columns != self.config.hidden {
            return Err(self.unfit(format!("tensor {name} has another width than the head")));
        }
        let mut numbers = vec![0.0; self.config.hidden];
        info.format.dequantise(&bytes, &mut numbers);
        if let Some(row) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(WeightsError::Tensor {
                tensor: name.to_owned(),
                error: MatrixError::NotFinite { row },
            });
        }
        numbers.resize(numbers.len().next_multiple_of(2 * LANES), 0.0);
        Ok(numbers)
    }

    /// The target's token for each of the head's.
    fn tokens(&self, vocabulary: usize) -> Result<Vec<TokenId>, WeightsError> {
        let Some(map) = self.tensors.tensor("d2t") else {
            return Ok((0..vocabulary as TokenId).collect());
        };
        let count = self.draft_vocabulary.unwrap_or(map.shape.iter().product());
        if map.dtype != Dtype::I64 || map.shape != [count] {
            return Err(self.unfit(format!("tensor d2t is not {count} integers")));
        }
        let mut bytes = Vec::new();
        self.tensors.read("d2t", &mut bytes)?;
        let (offsets, _) = bytes.as_chunks::<8>();
        let token = |(own, offset): (usize, &[u8; 8])| {
            let token = (own as i64).checked_add(i64::from_le_bytes(*offset))?;
            let token = usize::try_from(token)
                .ok()
                .filter(|token| *token < vocabulary)?;
            Some(token as TokenId)
        };
        let tokens: Option<Vec<TokenId>> = offsets.iter().enumerate().map(token).collect();
        tokens.ok_or_else(|| self.unfit("tensor d2t leads out of the vocabulary".to_owned()))
    }
}

/// The layer's shape. Heads call themselves by names of their own; the layer is Llama's.
fn shape(json: &[u8], nested: Option<Value>) -> Result<ModelConfig, String> {
    let mut shape = match nested {
        Some(nested) => nested,
        None => serde_json::from_slice(json).map_err(|error| error.to_string())?,
    };
    let fields = shape.as_object_mut().ok_or("it is no object")?;
    fields.remove("architectures");
    fields.insert("model_type".to_owned(), "llama".into());
    ModelConfig::from_config_json("a draft head", shape.to_string().as_bytes())
}
