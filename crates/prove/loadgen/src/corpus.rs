//! Texts to begin conversations with, from a folder or from a bucket.
//!
//! Wherever they come from they are files with a name and bytes, and here it is said which of
//! them are texts. A file that is none is left out and named: a folder with a stray image is
//! still a corpus, but nobody should wonder where a file went. Nothing left is an error.

pub mod bucket;

use std::fmt;
use std::path::Path;

use crate::starter::{Starter, Unfit};

/// Larger files are left out: a conversation begins with one, whole.
pub const LARGEST_FILE: u64 = 4 << 20;

/// The texts that were found, and the files that were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Corpus {
    /// In order of the files' names.
    pub starters: Vec<Starter>,
    pub left_out: Vec<LeftOut>,
}

/// A file that is no text to talk about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub name: String,
    pub why: Unfit,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} left out: {}", self.name, self.why)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    #[error("cannot read {name}: {error}")]
    Unreadable { name: String, error: std::io::Error },
    #[error("{0} has no text files")]
    NoText(String),
    #[error(transparent)]
    Bucket(#[from] bucket::BucketError),
}

impl Corpus {
    /// All files of a folder; hidden ones and folders within are passed over.
    pub fn read_folder(folder: &Path) -> Result<Self, CorpusError> {
        let unreadable = |path: &Path| {
            let name = path.display().to_string();
            move |error| CorpusError::Unreadable { name, error }
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
            let path = entry.map_err(unreadable(folder))?.path();
            if path.is_file() && !is_hidden(&path) {
                paths.push(path);
            }
        }
        paths.sort();
        let mut corpus = Self::default();
        for path in paths {
            let length = std::fs::metadata(&path).map_err(unreadable(&path))?.len();
            let bytes = match length > LARGEST_FILE {
                true => None,
                false => Some(std::fs::read(&path).map_err(unreadable(&path))?),
            };
            corpus.add(path.display().to_string(), bytes.as_deref());
        }
        corpus.not_empty(&folder.display().to_string())
    }

    /// Takes a file in, or notes why not. Without bytes it was too large to read.
    fn add(&mut self, name: String, bytes: Option<&[u8]>) {
        match bytes.ok_or(Unfit::TooLarge).and_then(Starter::parse) {
            Ok(starter) => self.starters.push(starter),
            Err(why) => self.left_out.push(LeftOut { name, why }),
        }
    }

    fn not_empty(self, name: &str) -> Result<Self, CorpusError> {
        match self.starters.is_empty() {
            true => Err(CorpusError::NoText(name.to_owned())),
            false => Ok(self),
        }
    }
}

fn is_hidden(path: &Path) -> bool {
    let name = path.file_name();
    name.is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &[u8])]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    #[test]
    fn a_folder_is_read_by_name_and_what_is_no_text_is_named() {
        let large = vec![b'a'; LARGEST_FILE as usize + 1];
        let files: [(&str, &[u8]); 7] = [
            ("b.txt", b"\n\nTides\n\nThe moon."),
            ("a.md", b"# Rivers\n\nThey flow."),
            (".hidden", b"\0"),
            ("empty.txt", b" \n"),
            ("image.png", b"\x89PNG\r\n\x1a\n\0"),
            ("large.txt", &large),
            ("zero.bin", b"a\0b"),
        ];
        let folder = folder(&files);
        std::fs::create_dir(folder.path().join("within")).unwrap();
        let corpus = Corpus::read_folder(folder.path()).unwrap();
        let titles: Vec<&str> = corpus.starters.iter().map(|one| &*one.title).collect();
        assert_eq!(titles, ["Rivers", "Tides"]);
        let left_out: Vec<String> = corpus.left_out.iter().map(LeftOut::to_string).collect();
        let expected = [
            "empty.txt left out: it is empty",
            "image.png left out: it is not a text file (UTF-8)",
            "large.txt left out: it is larger than 4 MiB",
            "zero.bin left out: it is not a text file (UTF-8)",
        ];
        assert_eq!(left_out.len(), expected.len());
        for (told, expected) in left_out.iter().zip(expected) {
            assert!(told.ends_with(expected), "{told}");
        }
    }

    #[test]
    fn a_folder_without_a_text_is_refused() {
        for files in [&[][..], &[("empty.txt", &b""[..])]] {
            let error = Corpus::read_folder(folder(files).path()).unwrap_err();
            assert!(error.to_string().contains("has no text files"), "{error}");
        }
        let error = Corpus::read_folder(Path::new("/no/such/folder")).unwrap_err();
        assert!(error.to_string().starts_with("cannot read /no/such/folder"));
    }
}
