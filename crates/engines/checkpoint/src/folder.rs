//! A model as Hugging Face lays it out: `config.json` and safetensors, whole or in shards.

mod config;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::safetensors::{SafeTensor, SafeTensors};
use super::source::SourceFile;
use super::{LoadError, Stored};
use crate::config::ModelConfig;
use crate::error::IndexError;

const WHOLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
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
}

pub(super) fn open(path: &Path) -> Result<Folder, LoadError> {
    let file = SourceFile::open(&path.join("config.json"))?;
    let name = path.file_name().unwrap_or(path.as_os_str());
    let config = file.read_whole(LARGEST_CONFIG)?;
    let config = ModelConfig::from_config_json(&name.to_string_lossy(), &config)
        .map_err(|fault| file.error(fault))?;
    let mut folder = Folder {
        config,
        files: Vec::new(),
        tensors: BTreeMap::new(),
    };
    let whole = path.join(WHOLE);
    let index = path.join(INDEX);
    if whole.exists() || !index.exists() {
        folder.add(SafeTensors::open(&whole)?, |_| true)?;
    } else {
        folder.add_shards(path, &SourceFile::open(&index)?)?;
    }
    Ok(folder)
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
            let before = self.tensors.len();
            self.add(SafeTensors::open(&path.join(file))?, of_this)?;
            if self.tensors.len() - before != count {
                let missing = weight_map
                    .iter()
                    .find(|(name, of)| *of == file && !self.tensors.contains_key(*name));
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
}
