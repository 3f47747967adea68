//! Where bytes come from: a file, or memory in tests.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::error::{Fault, LoadError, ReadError};

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
        let opened = File::open(path).and_then(|file| Ok((file.metadata()?, file)));
        match opened {
            Ok((about, file)) if about.is_file() => {
                let size = about.len();
                Ok(Self::new(
                    &path.display().to_string(),
                    OpenFile { file, size },
                ))
            }
            Ok(_) => Err(ReadError::NotAFile),
            Err(error) => Err(ReadError::Open(error)),
        }
        .map_err(|error| LoadError {
            file: path.display().to_string(),
            fault: error.into(),
        })
    }

    pub(super) fn error(&self, fault: impl Into<Fault>) -> LoadError {
        LoadError {
            file: self.name.clone(),
            fault: fault.into(),
        }
    }

    pub(super) fn size(&self) -> u64 {
        self.source.size()
    }

    /// So many bytes from there, or why not. Allocates only what the file has.
    pub(super) fn read(&self, at: u64, count: usize, into: &mut Vec<u8>) -> Result<(), ReadError> {
        into.clear();
        if at
            .checked_add(count as u64)
            .is_none_or(|end| end > self.size())
        {
            let size = self.size();
            return Err(ReadError::PastEnd { at, count, size });
        }
        into.resize(count, 0);
        self.source.read_at(at, into).map_err(ReadError::Read)
    }

    /// The bytes of a tensor, which an error names.
    pub(super) fn read_tensor(
        &self,
        name: &str,
        at: u64,
        count: usize,
        into: &mut Vec<u8>,
    ) -> Result<(), LoadError> {
        self.read(at, count, into).map_err(|error| {
            self.error(Fault::TensorRead {
                name: name.to_owned(),
                error,
            })
        })
    }

    /// All of a small file.
    pub(super) fn read_whole(&self, most: usize) -> Result<Vec<u8>, LoadError> {
        let size = usize::try_from(self.size()).unwrap_or(usize::MAX);
        if size > most {
            return Err(self.error(ReadError::TooLarge { size, most }));
        }
        let mut bytes = Vec::new();
        match self.read(0, size, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(error) => Err(self.error(error)),
        }
    }
}
