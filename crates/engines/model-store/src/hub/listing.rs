//! Which files a repository has, and which of them make a model.

use serde::Deserialize;

use super::reference::{Reference, escape, is_plain};
use crate::error::RepositoryFault;

/// More are named in no error.
const MOST_NAMED: usize = 40;

/// The hub's answer, as far as it matters here.
#[derive(Debug, Deserialize)]
pub(super) struct Listing {
    /// The commit that the revision stands for.
    pub(super) sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
    #[serde(default, rename = "cardData")]
    card: Option<Card>,
}

#[derive(Debug, Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    lfs: Option<Lfs>,
}

#[derive(Debug, Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: Option<String>,
    size: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
struct Card {
    #[serde(default)]
    license: serde_json::Value,
}

/// A file to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// In the repository.
    pub(super) remote: String,
    /// In the cache.
    pub(super) name: String,
    pub(super) bytes: Option<u64>,
    pub(super) sha256: Option<String>,
}

/// The files of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    pub(super) files: Vec<Wanted>,
    /// If one of the files is the model, rather than the folder of them all.
    pub(super) entry: Option<String>,
}

/// The 64 digits of a SHA-256, however they are wrapped.
pub(super) fn sha256_in(text: &str) -> Option<String> {
    let text = text.strip_prefix("W/").unwrap_or(text).trim_matches('"');
    let digits = text.strip_prefix("sha256:").unwrap_or(text);
    let right = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    right.then(|| digits.to_ascii_lowercase())
}

/// What loaders read beside the weights.
fn is_description(name: &str) -> bool {
    matches!(
        name,
        "config.json"
            | "generation_config.json"
            | "hf_quant_config.json"
            | "special_tokens_map.json"
    ) || (name.starts_with("tokenizer") && name.ends_with(".json"))
        || name.starts_with("chat_template")
}

fn is_weights(name: &str) -> bool {
    name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")
}

impl Listing {
    pub(super) fn licence(&self) -> Option<&str> {
        self.card.as_ref()?.license.as_str()
    }

    pub(super) fn select(&self, reference: &Reference) -> Result<Selection, RepositoryFault> {
        if let Some(file) = &reference.file {
            let found = self.siblings.iter().find(|one| one.rfilename == *file);
            let found = found.ok_or_else(|| RepositoryFault::NoFile(file.clone()))?;
            return Ok(single(found));
        }
        // Only the top: what is in folders are other forms of the same model.
        let top = self.siblings.iter().filter(|one| is_plain(&one.rfilename));
        let named = |test: fn(&str) -> bool| {
            let chosen = top.clone().filter(move |one| test(&one.rfilename));
            chosen.collect::<Vec<_>>()
        };
        let mut weights = named(is_weights);
        // Some repositories hold the weights a second time, in their maker's own layout.
        if weights.iter().any(|one| one.rfilename.starts_with("model")) {
            weights.retain(|one| one.rfilename.starts_with("model"));
        }
        if !weights
            .iter()
            .any(|one| one.rfilename.ends_with(".safetensors"))
        {
            return self.gguf(reference);
        }
        let mut files = named(is_description);
        if !files.iter().any(|one| one.rfilename == "config.json") {
            return Err(RepositoryFault::NoFile("config.json".to_owned()));
        }
        files.extend(weights);
        let files = files.into_iter().map(wanted).collect();
        Ok(Selection { files, entry: None })
    }

    /// Of many such files each is a whole model, so somebody has to choose.
    fn gguf(&self, reference: &Reference) -> Result<Selection, RepositoryFault> {
        let is_gguf = |one: &&Sibling| {
            one.rfilename.ends_with(".gguf") && one.rfilename.split('/').all(is_plain)
        };
        let files: Vec<&Sibling> = self.siblings.iter().filter(is_gguf).collect();
        match files.as_slice() {
            [] => Err(RepositoryFault::NoWeights),
            [only] => Ok(single(only)),
            several => {
                let names = several.iter().take(MOST_NAMED);
                Err(RepositoryFault::Several {
                    names: names
                        .map(|one| format!("{reference}:{}", one.rfilename))
                        .collect(),
                    more: several.len().saturating_sub(MOST_NAMED),
                })
            }
        }
    }
}

fn single(sibling: &Sibling) -> Selection {
    let file = wanted(sibling);
    Selection {
        entry: Some(file.name.clone()),
        files: vec![file],
    }
}

fn wanted(sibling: &Sibling) -> Wanted {
    let remote = sibling.rfilename.clone();
    let name = remote.rsplit('/').next().unwrap_or(&remote).to_owned();
    let lfs = sibling.lfs.as_ref();
    Wanted {
        name,
        bytes: lfs.and_then(|lfs| lfs.size).or(sibling.size),
        sha256: lfs.and_then(|lfs| sha256_in(lfs.sha256.as_deref()?)),
        remote,
    }
}

impl Wanted {
    /// The path on the server, below the endpoint.
    pub(super) fn path(&self, repository: &str, commit: &str) -> String {
        let parts: Vec<String> = self.remote.split('/').map(escape).collect();
        format!(
            "/{repository}/resolve/{}/{}",
            escape(commit),
            parts.join("/")
        )
    }
}
