//! A model's files: a Hugging Face folder or a GGUF file, behind one way to read them.
//!
//! Opening reads headers only. Every size is checked against the file before anything is
//! allocated. Tensors are known by Hugging Face's names, whatever the file calls them.

use std::path::Path;

use crate::config::ModelConfig;
use crate::format::Format;

/// Why a model cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("{file}: {detail}")]
    File { file: String, detail: String },
}

/// A matrix, or a vector with one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub format: Format,
    pub rows: usize,
    /// Numbers in a row.
    pub columns: usize,
}

/// An opened model.
#[derive(Debug)]
pub struct Checkpoint {
    config: ModelConfig,
}

impl Checkpoint {
    /// A folder in Hugging Face's layout, or a GGUF file.
    pub fn open(_path: &Path) -> Result<Self, LoadError> {
        unreachable!()
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// By Hugging Face's name, such as `model.layers.0.self_attn.q_proj.weight`.
    pub fn tensor(&self, _name: &str) -> Option<&TensorInfo> {
        None
    }

    /// The bytes of a tensor as they are stored, into `bytes`, which is emptied first.
    pub fn read(&self, _name: &str, _bytes: &mut Vec<u8>) -> Result<TensorInfo, LoadError> {
        unreachable!()
    }
}
