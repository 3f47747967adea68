//! A model's files: a Hugging Face folder or a GGUF file, behind one way to read them.
//!
//! Opening reads headers only. Every size is checked against the file before anything is
//! allocated. Tensors are known by Hugging Face's names, whatever the file calls them. Nothing here
//! knows what computes with them.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | what a model's files say of its shape |
//! | [`error`] | why a model's files cannot be used |
//! | [`format`](mod@format) | how numbers are stored, and what they stand for |
//! | `folder`, `safetensors` | Hugging Face folders |
//! | `gguf`, `tokenizer` | GGUF files, and the tokenizer inside one |
//! | `head` | an EAGLE-3 head's folder |
//! | `required` | which tensors a model must have |
//! | `scales` | what FP8 weights, and keys and values stored so, are multiplied by |
//! | `source` | bytes at a place of a file |

pub mod config;
pub mod error;
mod folder;
pub mod format;
mod gguf;
mod head;
mod required;
mod safetensors;
mod scales;
mod source;
#[cfg(test)]
mod tests;
mod tokenizer;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use scales::Scale;
use source::SourceFile;

pub use config::ModelConfig;
use error::TensorFault;
pub use error::{Fault, LoadError};
pub use format::Format;
pub use gguf::{Gguf, Value};
pub use head::{HeadFiles, Shape};
pub use safetensors::{Dtype, SafeTensor, SafeTensors};
pub use scales::CacheScales;
pub use source::Source;
pub use tokenizer::GgufTokenizer;

/// A matrix, or a vector with one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub format: Format,
    pub rows: usize,
    /// Numbers in a row.
    pub columns: usize,
}

/// A tensor and where its bytes are.
#[derive(Clone, Debug)]
struct Stored {
    info: TensorInfo,
    /// Which of the files.
    file: usize,
    at: u64,
    bytes: usize,
}

/// An opened model.
#[derive(Debug)]
pub struct Checkpoint {
    config: ModelConfig,
    /// What was opened, for errors.
    name: String,
    files: Vec<SourceFile>,
    tensors: BTreeMap<String, Stored>,
    /// Of FP8, by their own names.
    scales: BTreeMap<String, Scale>,
    /// Of a GGUF file.
    metadata: BTreeMap<String, Value>,
}

impl Checkpoint {
    /// A folder in Hugging Face's layout, or a GGUF file.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        if !path.is_dir() {
            return Self::from_gguf(Gguf::open(path)?);
        }
        let folder::Folder {
            config,
            files,
            tensors,
            scales,
        } = folder::open(path)?;
        Self {
            config,
            name: path.display().to_string(),
            files,
            tensors,
            scales,
            metadata: BTreeMap::new(),
        }
        .complete()
    }

    /// The model in a GGUF file.
    pub fn from_gguf(file: Gguf) -> Result<Self, LoadError> {
        let config = file.config()?;
        let name = file.file.name.clone();
        let tensors = file.hugging_face_tensors()?;
        Self {
            config,
            name,
            files: vec![file.file],
            tensors,
            scales: BTreeMap::new(),
            metadata: file.metadata,
        }
        .complete()
    }

    /// Refuses a model that lacks a tensor or has one that nobody would use.
    fn complete(mut self) -> Result<Self, LoadError> {
        let checked = required::check(&self.config, &mut self.tensors)
            .and_then(|()| scales::check(&self.config, &self.tensors, &mut self.scales));
        match checked {
            Ok(()) => Ok(self),
            Err(fault) => Err(self.error(fault)),
        }
    }

    fn error(&self, fault: Fault) -> LoadError {
        let file = self.name.clone();
        LoadError { file, fault }
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// By Hugging Face's name, such as `model.layers.0.self_attn.q_proj.weight`.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name).map(|stored| &stored.info)
    }

    /// As [`tensor`](Self::tensor); that there is none is an error.
    pub fn info(&self, name: &str) -> Result<&TensorInfo, LoadError> {
        Ok(&self.stored(name)?.info)
    }

    /// All tensors of the model with their names.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        let each = self.tensors.iter();
        each.map(|(name, stored)| (name.as_str(), &stored.info))
    }

    /// The tokenizer of a GGUF file. A folder has its own as a file.
    pub fn tokenizer(&self) -> Result<Option<GgufTokenizer>, LoadError> {
        tokenizer::build(&self.metadata, self.config.vocabulary).map_err(|fault| self.error(fault))
    }

    /// Bytes of all tensors as they are stored: what reading every one of them takes.
    pub fn stored_bytes(&self) -> u64 {
        let each = self.tensors.values();
        each.map(|stored| stored.bytes as u64)
            .fold(0, u64::saturating_add)
    }

    /// Whether any weights are FP8.
    pub fn has_fp8(&self) -> bool {
        let mut each = self.tensors.values();
        each.any(|stored| stored.info.format == Format::E4m3)
    }

    /// What each row of a tensor is multiplied by; nothing but FP8 has that.
    pub fn row_scales(&self, name: &str) -> Result<Option<Vec<f32>>, LoadError> {
        let Some((info, scale)) = self.tensor(name).zip(scales::of(name)) else {
            return Ok(None);
        };
        let Some(mut numbers) = self.scale(&scale, |number| number >= 0.0)? else {
            return Ok(None);
        };
        if let [one] = numbers[..] {
            numbers.resize(info.rows, one);
        }
        Ok(Some(numbers))
    }

    /// What keys and values of a layer are divided by where they are stored as FP8.
    pub fn cache_scales(&self, layer: usize) -> Result<CacheScales, LoadError> {
        let one = |names: &[&str]| {
            let part = |part| format!("model.layers.{layer}.self_attn.{part}");
            let mut names = names.iter().copied().map(part);
            let Some(name) = names.find(|name| self.scales.contains_key(name)) else {
                return Ok(1.0);
            };
            let numbers = self.scale(&name, |number| number > 0.0)?;
            Ok(numbers.map_or(1.0, |numbers| numbers[0]))
        };
        Ok(CacheScales {
            keys: one(&scales::KEYS)?,
            values: one(&scales::VALUES)?,
        })
    }

    /// The numbers of a scale, or nothing if there is none of that name.
    fn scale(
        &self,
        name: &str,
        is_sound: impl Fn(f32) -> bool,
    ) -> Result<Option<Vec<f32>>, LoadError> {
        let Some(scale) = self.scales.get(name) else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        self.files[scale.file].read_tensor(name, scale.at, scale.bytes, &mut bytes)?;
        let mut numbers = vec![0.0; scale.count()];
        scale.format.dequantise(&bytes, &mut numbers);
        match numbers
            .iter()
            .find(|number| !number.is_finite() || !is_sound(**number))
        {
            None => Ok(Some(numbers)),
            Some(number) => Err(self.error(TensorFault::Scale(*number).of(name))),
        }
    }

    /// The bytes of a tensor as they are stored, into `bytes`, which is emptied first.
    pub fn read(&self, name: &str, bytes: &mut Vec<u8>) -> Result<TensorInfo, LoadError> {
        let stored = self.stored(name)?;
        self.files[stored.file].read_tensor(name, stored.at, stored.bytes, bytes)?;
        Ok(stored.info.clone())
    }

    /// As [`read`](Self::read), of these rows alone.
    pub fn read_rows(
        &self,
        name: &str,
        rows: Range<usize>,
        bytes: &mut Vec<u8>,
    ) -> Result<(), LoadError> {
        let stored = self.stored(name)?;
        assert!(rows.end <= stored.info.rows, "the tensor has these rows");
        let row = stored.bytes / stored.info.rows.max(1);
        let at = stored.at + (rows.start * row) as u64;
        self.files[stored.file].read_tensor(name, at, rows.len() * row, bytes)
    }

    fn stored(&self, name: &str) -> Result<&Stored, LoadError> {
        let none = || self.error(Fault::NoTensor(name.to_owned()));
        self.tensors.get(name).ok_or_else(none)
    }
}
