//! Describes a pulled folder: written beside the files, read when models are listed.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::reference::is_plain;
use crate::error::PullError;
use crate::partial::Partial;

const FILE: &str = "homing.json";
const LONGEST: u64 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// As the user would type it.
    pub(crate) name: String,
    pub(crate) commit: String,
    pub(crate) licence: Option<String>,
    /// The file that is the model; None: the folder is.
    pub(crate) entry: Option<String>,
}

impl Record {
    /// None if there is none, or none that can be understood.
    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let mut bytes = Vec::new();
        let file = File::open(folder.join(FILE)).ok()?;
        file.take(LONGEST).read_to_end(&mut bytes).ok()?;
        let record: Self = serde_json::from_slice(&bytes).ok()?;
        record
            .entry
            .as_deref()
            .is_none_or(is_plain)
            .then_some(record)
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), PullError> {
        let text = serde_json::to_vec_pretty(self).expect("plain text only");
        let mut partial = Partial::create(&folder.join(FILE))?;
        partial.write(&text)?;
        partial.finish(None, None)?;
        Ok(())
    }

    /// What a loader is to open.
    pub(crate) fn path(&self, folder: &Path) -> PathBuf {
        match &self.entry {
            Some(file) => folder.join(file),
            None => folder.to_owned(),
        }
    }
}

/// Of the files in a folder, without those in folders below.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok());
    let files = files.filter(fs::Metadata::is_file);
    files.map(|meta| meta.len()).sum()
}
