//! A model as Hugging Face lays it out: `config.json` and safetensors, whole or in shards.

mod config;
mod quantization;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use super::safetensors::{SafeTensor, SafeTensors};
use super::source::SourceFile;
use super::{LoadError, Stored};
use crate::config::ModelConfig;
use crate::error::{IndexError, TensorFault};
use crate::format::Format;
use crate::scales::{self, Scale};

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// Where modelopt says how it quantised; older versions say it nowhere else.
const MODELOPT: &str = "hf_quant_config.json";
const LARGEST_CONFIG: usize = 1 << 20;
const LARGEST_INDEX: usize = 64 << 20;
/// The largest models have some two hundred; every one is an open file.
const MOST_SHARDS: usize = 512;

/// What the files of a folder hold.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) config: ModelConfig,
    pub(super) files: Vec<SourceFile>,
    pub(super) tensors: BTreeMap<String, Stored>,
    pub(super) scales: BTreeMap<String, Scale>,
}

pub(super) fn open(path: &Path) -> Result<Folder, LoadError> {
    let file = SourceFile::open(&path.join("config.json"))?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    let json = file.read_whole(LARGEST_CONFIG)?;
    let config = ModelConfig::from_config_json(&name.to_string_lossy(), &json)
        .map_err(|fault| file.error(fault))?;
    let Quantization {
        quantization_config,
    } = serde_json::from_slice(&json).map_err(|error| file.error(error))?;
    let is_quantised = has_modelopt(path)? || quantization_config.is_some();
    let mut folder = Folder {
        config,
        files: Vec::new(),
        tensors: BTreeMap::new(),
        scales: BTreeMap::new(),
    };
    let whole = path.join(WHOLE);
    let index = path.join(INDEX);
    if whole.exists() || !index.exists() {
        folder.add(SafeTensors::open(&whole)?, |_| true)?;
    } else {
        folder.add_shards(path, &SourceFile::open(&index)?)?;
    }
    match is_quantised {
        true => Ok(folder),
        false => folder.without_quantisation(path),
    }
}

/// The one field of `config.json` that speaks of FP8; what it says has been checked.
#[derive(Deserialize)]
struct Quantization {
    quantization_config: Option<Value>,
}

/// Whether modelopt's file is there, whose scheme must be one that is read.
fn has_modelopt(path: &Path) -> Result<bool, LoadError> {
    let path = path.join(MODELOPT);
    if !path.exists() {
        return Ok(false);
    }
    let file = SourceFile::open(&path)?;
    let config = serde_json::from_slice(&file.read_whole(LARGEST_CONFIG)?)
        .map_err(|error| file.error(error))?;
    quantization::check_modelopt(&config).map_err(|fault| file.error(fault))?;
    Ok(true)
}

#[derive(Deserialize)]
struct Index {
    /// Names of tensors and of files.
    weight_map: BTreeMap<String, String>,
}

impl Folder {
    fn add_shards(&mut self, path: &Path, index: &SourceFile) -> Result<(), LoadError> {
        let Index { weight_map } = serde_json::from_slice(&index.read_whole(LARGEST_INDEX)?)
            .map_err(|error| index.error(error))?;
        let mut shards: BTreeMap<&str, usize> = BTreeMap::new();
        for file in weight_map.values() {
            *shards.entry(file).or_default() += 1;
        }
        if shards.len() > MOST_SHARDS {
            return Err(index.error(IndexError::TooMany(shards.len())));
        }
        for (file, count) in shards {
            // An index may not lead out of its folder.
            if file.contains(['/', '\\']) || matches!(file, "" | "." | "..") {
                return Err(index.error(IndexError::Name(file.to_owned())));
            }
            let of_this = |name: &str| weight_map.get(name).is_some_and(|of| of == file);
            let before = self.tensors.len() + self.scales.len();
            self.add(SafeTensors::open(&path.join(file))?, of_this)?;
            if self.tensors.len() + self.scales.len() - before != count {
                let missing = weight_map.iter().find(|(name, of)| {
                    let is_there =
                        self.tensors.contains_key(*name) || self.scales.contains_key(*name);
                    *of == file && !is_there
                });
                let missing = missing.map_or("one", |(name, _)| name);
                return Err(index.error(IndexError::NotThere {
                    tensor: missing.to_owned(),
                    file: file.to_owned(),
                }));
            }
        }
        Ok(())
    }

    /// Takes those tensors of a file that are wanted from it.
    fn add(&mut self, opened: SafeTensors, wanted: impl Fn(&str) -> bool) -> Result<(), LoadError> {
        let SafeTensors { file, tensors } = opened;
        for (name, tensor) in tensors {
            if !wanted(&name) {
                continue;
            }
            if scales::is_scale(&name) {
                let scale = Scale::new(tensor, self.files.len())
                    .map_err(|fault| file.error(fault.of(name.as_str())))?;
                self.scales.insert(name, scale);
                continue;
            }
            let info = tensor
                .info()
                .map_err(|fault| file.error(fault.of(name.as_str())))?;
            let SafeTensor { at, bytes, .. } = tensor;
            let stored = Stored {
                info,
                file: self.files.len(),
                at,
                bytes,
            };
            self.tensors.insert(name, stored);
        }
        self.files.push(file);
        Ok(())
    }

    /// Itself, unless something in it would need to be told how it was quantised.
    fn without_quantisation(self, path: &Path) -> Result<Self, LoadError> {
        let mut tensors = self.tensors.iter();
        let fp8 = tensors.find(|(_, stored)| stored.info.format == Format::E4m3);
        let fault = match (fp8, self.scales.keys().next()) {
            (Some((name, _)), _) => TensorFault::Undeclared.of(name.as_str()),
            (None, Some(name)) => TensorFault::Unknown.of(name.as_str()),
            (None, None) => return Ok(self),
        };
        let file = path.display().to_string();
        Err(LoadError { file, fault })
    }
}
