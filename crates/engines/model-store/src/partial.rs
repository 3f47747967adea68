//! A file that is not finished.
//!
//! It is written under another name and takes its own only when its size and its hash are
//! what was promised: a file in the final place is a good one. What an interrupted pull has
//! written can be taken up again.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::PullError;

const BUFFER_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Partial {
    file: File,
    path: PathBuf,
    place: PathBuf,
    hash: Sha256,
    written: u64,
}

impl Partial {
    /// Starts with nothing, whatever is there.
    pub(crate) fn create(place: &Path) -> Result<Self, PullError> {
        let path = partial_path(place);
        let file = File::create(&path).map_err(PullError::file(&path, "create"))?;
        Ok(Self {
            file,
            path,
            place: place.to_owned(),
            hash: Sha256::new(),
            written: 0,
        })
    }

    /// Goes on behind what is there, after reading it once for the hash.
    pub(crate) fn resume(place: &Path) -> Result<Self, PullError> {
        let path = partial_path(place);
        let mut options = File::options();
        options.read(true).append(true).create(true);
        let mut file = options
            .open(&path)
            .map_err(PullError::file(&path, "open"))?;
        let (mut hash, mut written) = (Sha256::new(), 0);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = file
                .read(&mut buffer)
                .map_err(PullError::file(&path, "read"))?;
            if count == 0 {
                break;
            }
            hash.update(&buffer[..count]);
            written += count as u64;
        }
        Ok(Self {
            file,
            path,
            place: place.to_owned(),
            hash,
            written,
        })
    }

    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), PullError> {
        self.file
            .write_all(bytes)
            .map_err(PullError::file(&self.path, "write"))?;
        self.hash.update(bytes);
        self.written += bytes.len() as u64;
        Ok(())
    }

    /// Throws away what was written.
    pub(crate) fn restart(&mut self) -> Result<(), PullError> {
        *self = Self::create(&self.place)?;
        Ok(())
    }

    /// Puts the file into its place if it is what was promised; otherwise removes it.
    pub(crate) fn finish(
        self,
        bytes: Option<u64>,
        sha256: Option<&str>,
    ) -> Result<PathBuf, PullError> {
        let file = self.place.display().to_string();
        let found = hex(&self.hash.finalize());
        let broken = if let Some(wanted) = bytes.filter(|&wanted| wanted != self.written) {
            let found = self.written;
            Some(PullError::Size {
                file,
                wanted,
                found,
            })
        } else if let Some(wanted) = sha256.filter(|wanted| !wanted.eq_ignore_ascii_case(&found)) {
            let wanted = wanted.to_owned();
            Some(PullError::Checksum {
                file,
                wanted,
                found,
            })
        } else {
            None
        };
        if let Some(error) = broken {
            fs::remove_file(&self.path).map_err(PullError::file(&self.path, "remove"))?;
            return Err(error);
        }
        self.file
            .sync_all()
            .map_err(PullError::file(&self.path, "write"))?;
        move_into_place(&self.path, &self.place)?;
        Ok(self.place)
    }
}

/// Renames, and sees to it that the new name outlives a loss of power.
pub(crate) fn move_into_place(from: &Path, place: &Path) -> Result<(), PullError> {
    fs::rename(from, place).map_err(PullError::file(place, "put in place"))?;
    let folder = place.parent().unwrap_or(place);
    // Not every file system can do this for a folder; the file itself is safe by now.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn partial_path(place: &Path) -> PathBuf {
    let mut name = OsString::from(place);
    name.push(".partial");
    name.into()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}

/// The hash of a text or a small file.
#[cfg(test)]
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
