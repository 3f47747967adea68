//! An EAGLE-3 head's files: `config.json` and `model.safetensors`, in both public styles.
//!
//! What a head computes is an engine's business; here is which tensors it has, of which shape, and
//! whether it belongs to a target.

use std::path::{Path, PathBuf};

use contract::TokenId;
use serde::Deserialize;
use serde_json::Value;

use super::{Dtype, LoadError, SafeTensors, TensorInfo};
use crate::config::ModelConfig;
use crate::error::{Fault, HeadError, ReadError, TensorFault, Unsupported};
use crate::format::Format;

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

/// What a tensor of a head must look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Matrix {
        rows: usize,
        columns: usize,
    },
    /// As wide as the head.
    Vector,
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
        let error = |fault: Fault| LoadError {
            file: path.display().to_string(),
            fault,
        };
        let json = std::fs::read(&path).map_err(|failed| error(ReadError::Read(failed).into()))?;
        let fields: Fields = serde_json::from_slice(&json).map_err(|wrong| error(wrong.into()))?;
        let unsupported = [
            (fields.norm_before_fc, "norm_before_fc"),
            (fields.fc_norm, "fc_norm"),
            (fields.norm_output, "norm_output"),
        ];
        if let Some((_, name)) = unsupported.iter().find(|(set, _)| *set) {
            return Err(error(Unsupported::Head(name).into()));
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
            .ok_or_else(|| error(HeadError::NoLayer.into()))?;
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

    /// The layer's shape, with the target's vocabulary if it has none of its own.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Width of the target's states.
    pub fn target_hidden(&self) -> usize {
        self.target_hidden
    }

    /// Whether the residual stream begins with the normed state.
    pub fn norm_before_residual(&self) -> bool {
        self.norm_before_residual
    }

    /// The name of one of the layer's tensors, such as `hidden_norm.weight`.
    pub fn layer_tensor(&self, part: &str) -> String {
        format!("{}{part}", self.prefix)
    }

    /// Whether it can be a head of `target`.
    pub fn check(&self, target: &ModelConfig) -> Result<(), LoadError> {
        let taps = &self.taps(target)[..];
        let ascending = taps.windows(2).all(|pair| pair[0] < pair[1]);
        if taps.is_empty() || !ascending || taps.iter().any(|tap| *tap >= target.layers) {
            return Err(self.unfit(HeadError::Taps {
                taps: taps.to_vec(),
                layers: target.layers,
            }));
        }
        if self.target_hidden != target.hidden {
            return Err(self.unfit(HeadError::Width {
                own: self.target_hidden,
                target: target.hidden,
            }));
        }
        Ok(())
    }

    /// The name of its own embeddings; `None` where it takes the target's.
    pub fn embeddings(&self, target: &ModelConfig) -> Result<Option<&'static str>, LoadError> {
        const NAME: &str = "embed_tokens.weight";
        let hidden = self.config.hidden;
        if self.tensors.tensor(NAME).is_some() {
            return Ok(Some(NAME));
        }
        if hidden != target.hidden {
            return Err(self.unfit(HeadError::NoEmbeddings {
                own: hidden,
                target: target.hidden,
            }));
        }
        Ok(None)
    }

    fn unfit(&self, fault: impl Into<Fault>) -> LoadError {
        LoadError {
            file: self.path.display().to_string(),
            fault: fault.into(),
        }
    }

    /// The bytes of a tensor of that shape as they are stored, into `bytes`, which is emptied first.
    pub fn read(
        &self,
        name: &str,
        shape: Shape,
        bytes: &mut Vec<u8>,
    ) -> Result<TensorInfo, LoadError> {
        let info = self.tensors.read(name, bytes)?.info();
        let info = info.map_err(|fault| self.unfit(fault.of(name)))?;
        if info.format == Format::E4m3 {
            // Its scale would be missing.
            let fault = TensorFault::StoredAs(info.format.to_string());
            return Err(self.unfit(fault.of(name)));
        }
        match shape {
            Shape::Matrix { rows, columns } if (info.rows, info.columns) != (rows, columns) => {
                let found = (info.rows, info.columns);
                let fault = TensorFault::OtherShape {
                    rows,
                    columns,
                    found,
                };
                Err(self.unfit(fault.of(name)))
            }
            Shape::Vector if info.rows * info.columns != self.config.hidden => {
                Err(self.unfit(TensorFault::Width.of(name)))
            }
            Shape::Matrix { .. } | Shape::Vector => Ok(info),
        }
    }

    /// The target's token for each of the head's.
    pub fn tokens(&self, vocabulary: usize) -> Result<Vec<TokenId>, LoadError> {
        let Some(map) = self.tensors.tensor("d2t") else {
            return Ok((0..vocabulary as TokenId).collect());
        };
        let count = self.draft_vocabulary.unwrap_or(map.shape.iter().product());
        if map.dtype != Dtype::I64 || map.shape != [count] {
            return Err(self.unfit(TensorFault::NotIntegers(count).of("d2t")));
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
        tokens.ok_or_else(|| self.unfit(TensorFault::OutsideVocabulary.of("d2t")))
    }
}

/// The layer's shape. Heads call themselves by names of their own; the layer is Llama's.
fn shape(json: &[u8], nested: Option<Value>) -> Result<ModelConfig, Fault> {
    let mut shape = match nested {
        Some(nested) => nested,
        None => serde_json::from_slice(json)?,
    };
    let fields = shape.as_object_mut().ok_or(HeadError::NotAnObject)?;
    fields.remove("architectures");
    fields.insert("model_type".to_owned(), "llama".into());
    ModelConfig::from_config_json("a draft head", shape.to_string().as_bytes())
}
