//! Where bytes come from: a file, or memory in tests.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::LoadError;

/// Bytes that can be read at any place.
pub trait Source: Debug + Send + Sync {
    fn size(&self) -> u64;
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()>;
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    size: u64,
}

impl Source for OpenFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }
}

impl Source for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let found = usize::try_from(at)
            .ok()
            .and_then(|at| self.get(at..at.checked_add(into.len())?));
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A source and what errors call it.
#[derive(Debug)]
pub(super) struct SourceFile {
    pub(super) name: String,
    source: Box<dyn Source>,
}

impl SourceFile {
    pub(super) fn new(name: &str, source: impl Source + 'static) -> Self {
        Self {
            name: name.to_owned(),
            source: Box::new(source),
        }
    }

    pub(super) fn open(path: &Path) -> Result<Self, LoadError> {
        let name = path.display().to_string();
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((about, file)) if about.is_file() => {
                let size = about.len();
                Ok(Self::new(&name, OpenFile { file, size }))
            }
            Ok(_) => Err(LoadError::File {
                file: name,
                detail: "not a file".to_owned(),
            }),
            Err(error) => Err(LoadError::File {
                file: name,
                detail: format!("cannot be opened: {error}"),
            }),
        }
    }

    pub(super) fn error(&self, detail: impl Into<String>) -> LoadError {
        LoadError::File {
            file: self.name.clone(),
            detail: detail.into(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.source.size()
    }

    /// So many bytes from there, or why not. Allocates only what the file has.
    pub(super) fn read(&self, at: u64, count: usize, into: &mut Vec<u8>) -> Result<(), String> {
        into.clear();
        if at
            .checked_add(count as u64)
            .is_none_or(|end| end > self.size())
        {
            return Err(format!(
                "{count} bytes at {at} are more than the file's {}",
                self.size()
            ));
        }
        into.resize(count, 0);
        self.source
            .read_at(at, into)
            .map_err(|error| format!("cannot be read: {error}"))
    }

    /// All of a small file.
    pub(super) fn read_whole(&self, most: usize) -> Result<Vec<u8>, LoadError> {
        let count = usize::try_from(self.size()).unwrap_or(usize::MAX);
        if count > most {
            return Err(self.error(format!("{count} bytes, more than the {most} allowed")));
        }
        let mut bytes = Vec::new();
        match self.read(0, count, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(detail) => Err(self.error(detail)),
        }
    }
}
