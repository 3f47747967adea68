//! What conversations begin with: long texts, and a request to explain them.
//!
//! Texts come from the caller, who may have some built in, or from a folder. A folder is
//! taken whole or refused: a file that is empty or no text is an error that names it, never
//! a conversation about nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::random::mix;

const MARKER: u64 = 7;
const CLOSING: u64 = 8;

/// Bytes of a file that are searched for signs that it is no text.
const LARGEST_FILE: u64 = 4 << 20;

/// What the user wants to know about the text.
const CLOSINGS: [&str; 5] = [
    "Explain the main ideas of this text and how they depend on one another.",
    "Summarise this text for an engineer who is new to the subject.",
    "Which part of this text is the hardest to understand? Explain that part in detail.",
    "Describe how the things in this text work together, step by step.",
    "What are the most important figures and limits in this text, and where do they come from?",
];

/// One text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    pub title: Arc<str>,
    pub text: Arc<str>,
}

#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    #[error("{} cannot be read: {error}", path.display())]
    Unreadable {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("{} is empty", .0.display())]
    Empty(PathBuf),
    #[error("{} is not a text file (UTF-8)", .0.display())]
    NoText(PathBuf),
    #[error("{} is larger than 4 MiB", .0.display())]
    TooLarge(PathBuf),
    #[error("{} holds no file", .0.display())]
    NoFile(PathBuf),
}

impl Starter {
    pub fn new(title: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self {
            title: title.into(),
            text: text.into(),
        }
    }

    /// A file's content; its first line with words is the title.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self, StarterError> {
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.contains('\0'))
            .ok_or_else(|| StarterError::NoText(path.to_owned()))?;
        let title = text
            .lines()
            .map(|line| line.trim_start_matches('#').trim())
            .find(|line| !line.is_empty())
            .ok_or_else(|| StarterError::Empty(path.to_owned()))?;
        let title: String = title.chars().take(80).collect();
        Ok(Self::new(title, text.trim()))
    }

    /// All files of a folder, by name; hidden ones and folders within are passed over.
    pub fn read_folder(folder: &Path) -> Result<Vec<Self>, StarterError> {
        let unreadable = |path: &Path| {
            let path = path.to_owned();
            move |error| StarterError::Unreadable { path, error }
        };
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable(folder))? {
            let path = entry.map_err(unreadable(folder))?.path();
            let hidden = path
                .file_name()
                .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if path.is_file() && !hidden {
                paths.push(path);
            }
        }
        paths.sort();
        let starters = paths.iter().map(|path| {
            let length = std::fs::metadata(path).map_err(unreadable(path))?.len();
            if length > LARGEST_FILE {
                return Err(StarterError::TooLarge(path.clone()));
            }
            Self::parse(path, &std::fs::read(path).map_err(unreadable(path))?)
        });
        let starters: Vec<Self> = starters.collect::<Result<_, _>>()?;
        match starters.is_empty() {
            true => Err(StarterError::NoFile(folder.to_owned())),
            false => Ok(starters),
        }
    }

    /// The first message of a conversation. With `unique`, it begins with a line that no other
    /// conversation has, so that nothing of the text can have been cached by another.
    pub fn message(&self, seed: u64, conversation: u64, unique: bool) -> String {
        let closing = mix(seed ^ CLOSING, conversation, 0) as usize % CLOSINGS.len();
        let (text, closing) = (&self.text, CLOSINGS[closing]);
        if unique {
            let marker = mix(seed ^ MARKER, conversation, 0);
            format!("Copy {marker:016x} of this text.\n\n{text}\n\n{closing}")
        } else {
            format!("{text}\n\n{closing}")
        }
    }
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
    fn a_folder_is_read_by_name() {
        let files: [(&str, &[u8]); 3] = [
            ("b.txt", b"\n\nTides\n\nThe moon."),
            ("a.md", b"# Rivers\n\nThey flow."),
            (".hidden", b"\0"),
        ];
        let folder = folder(&files);
        let starters = Starter::read_folder(folder.path()).unwrap();
        let titles: Vec<&str> = starters.iter().map(|starter| &*starter.title).collect();
        assert_eq!(titles, ["Rivers", "Tides"]);
    }

    #[test]
    fn what_is_no_text_is_refused_by_name() {
        let cases: [(&str, &[u8], &str); 3] = [
            ("empty.txt", b" \n", "empty.txt is empty"),
            (
                "image.png",
                b"\x89PNG\r\n\x1a\n\0",
                "image.png is not a text file",
            ),
            ("zero.bin", b"a\0b", "zero.bin is not a text file"),
        ];
        for (name, bytes, message) in cases {
            let folder = folder(&[("good.txt", b"A text."), (name, bytes)]);
            let error = Starter::read_folder(folder.path()).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        }
        let error = Starter::read_folder(folder(&[]).path()).unwrap_err();
        assert!(error.to_string().contains("holds no file"), "{error}");
    }

    #[test]
    fn only_unique_messages_differ_from_the_start() {
        let starter = Starter::new("T", "A long text.");
        let start = |conversation, unique| {
            let message = starter.message(7, conversation, unique);
            message.chars().take(12).collect::<String>()
        };
        assert_eq!(start(1, false), start(2, false));
        assert_ne!(start(1, true), start(2, true));
        assert_eq!(starter.message(7, 1, true), starter.message(7, 1, true));
    }
}
