//! How a model of the hub is named: `OWNER/NAME`, `OWNER/NAME@REVISION`, and either with
//! `:FILE` for one file of many.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::NameError;

/// What stands for itself in an address and in the name of a folder.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const LONGEST: usize = 96;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// With a slash in it.
    pub(crate) repository: String,
    pub(crate) revision: Option<String>,
    pub(crate) file: Option<String>,
}

pub(crate) fn escape(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

/// Whether `name` may be the name of a file in a folder of ours.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && !name.contains(|character: char| character.is_control() || "/\\:".contains(character))
}

impl Reference {
    /// None if it does not look like one; an error if it does, but cannot be one.
    pub(crate) fn parse(name: &str) -> Option<Result<Self, NameError>> {
        let (rest, file) = match name.split_once(':') {
            Some((rest, file)) => (rest, Some(file)),
            None => (name, None),
        };
        let (repository, revision) = match rest.split_once('@') {
            Some((repository, revision)) => (repository, Some(revision)),
            None => (rest, None),
        };
        let (owner, model) = repository.split_once('/')?;
        if name.starts_with(['/', '.', '~']) || model.contains('/') {
            return None;
        }
        let reference = Self {
            repository: repository.to_owned(),
            revision: revision.map(str::to_owned),
            file: file.map(str::to_owned),
        };
        Some(reference.check(owner, model).map(|()| reference))
    }

    /// The hub's own rules. Without `--` in either part, folders can be named by both.
    fn check(&self, owner: &str, model: &str) -> Result<(), NameError> {
        for part in [owner, model] {
            let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
            let doubled = part.contains("--") || part.contains("..");
            let ends = part.starts_with(['-', '.']) || part.ends_with(['-', '.']);
            if part.is_empty() || !part.chars().all(allowed) || doubled || ends {
                return Err(NameError::Part(part.to_owned()));
            }
        }
        if self.repository.len() > LONGEST {
            return Err(NameError::TooLong);
        }
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        if let Some(revision) = &self.revision
            && (revision.is_empty() || revision.len() > LONGEST || !revision.chars().all(allowed))
        {
            return Err(NameError::Revision(revision.clone()));
        }
        if let Some(file) = &self.file
            && !(file.len() <= LONGEST && file.split('/').all(is_plain))
        {
            return Err(NameError::File(file.clone()));
        }
        Ok(())
    }

    /// The folder in the cache: one component of a path.
    pub(crate) fn folder(&self) -> String {
        let mut folder = self.repository.replace('/', "--");
        if let Some(revision) = &self.revision {
            folder += "@";
            folder += &escape(revision);
        }
        if let Some(file) = &self.file {
            folder += "--";
            folder += &escape(file);
        }
        folder
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.repository)?;
        if let Some(revision) = &self.revision {
            write!(formatter, "@{revision}")?;
        }
        if let Some(file) = &self.file {
            write!(formatter, ":{file}")?;
        }
        Ok(())
    }
}
