//! Reads members of a ZIP file, which is what a Python wheel is. A member may not become longer
//! than its directory entry says.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufReader, Read as _};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::PullError;

const BUFFER_BYTES: usize = 256 << 10;

/// An opened archive.
#[derive(Debug)]
pub(crate) struct Archive {
    zip: ZipArchive<BufReader<File>>,
    name: String,
}

impl Archive {
    pub(crate) fn open(path: &Path) -> Result<Self, PullError> {
        let file = File::open(path).map_err(PullError::file(path, "open"))?;
        let name = path.display().to_string();
        match ZipArchive::new(BufReader::with_capacity(BUFFER_BYTES, file)) {
            Ok(zip) => Ok(Self { zip, name }),
            Err(error) => Err(broken(&name, error.to_string())),
        }
    }

    /// How long a member is, unpacked.
    pub(crate) fn member_bytes(&mut self, name: &str) -> Result<u64, PullError> {
        let Self { zip, name: file } = self;
        let member = zip.by_name(name);
        Ok(member
            .map_err(|error| unreadable(file, name, &error))?
            .size())
    }

    /// Unpacks a member, piece by piece.
    pub(crate) fn unpack(
        &mut self,
        name: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), PullError>,
    ) -> Result<(), PullError> {
        let Self { zip, name: file } = self;
        let member = zip.by_name(name);
        let mut member = member.map_err(|error| unreadable(file, name, &error))?;
        let mut left = member.size();
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let count = member.read(&mut buffer);
            let count = count.map_err(|error| broken(file, format!("{name}: {error}")))?;
            if count == 0 {
                break;
            }
            left = left
                .checked_sub(count as u64)
                .ok_or_else(|| broken(file, format!("{name} is longer than its declared size")))?;
            sink(&buffer[..count])?;
        }
        match left {
            0 => Ok(()),
            _ => Err(broken(file, format!("{name} is damaged"))),
        }
    }
}

fn broken(file: &str, detail: String) -> PullError {
    PullError::Archive {
        file: file.to_owned(),
        detail,
    }
}

fn unreadable(file: &str, member: &str, error: &ZipError) -> PullError {
    let detail = match matches!(error, ZipError::FileNotFound) {
        true => format!("has no member {member}"),
        false => format!("{member}: {error}"),
    };
    broken(file, detail)
}
