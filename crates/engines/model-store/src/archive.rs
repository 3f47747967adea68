//! Reads members of a ZIP file, which is what a Python wheel is.
//!
//! Only what wheels use: members that are stored or deflated, also beyond four gigabytes.
//! Every offset and size is checked against the file before it is followed, and a member
//! may not become longer than its directory entry says.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use crate::error::PullError;

const END_BYTES: u64 = 22;
const LOCATOR_BYTES: u64 = 20;
const END64_BYTES: u64 = 56;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: u64 = 30;
const LONGEST_COMMENT: u64 = u16::MAX as u64;
const LARGEST_DIRECTORY: u64 = 16 << 20;
const BUFFER_BYTES: usize = 256 << 10;

/// In place of a number that has to be looked up in the extra field.
const ELSEWHERE: u64 = u32::MAX as u64;
const ZIP64_FIELD: u16 = 1;
const ENCRYPTED: u16 = 1;

/// An opened archive.
#[derive(Debug)]
pub(crate) struct Archive {
    file: File,
    name: String,
    bytes: u64,
    directory: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    flags: u16,
    method: u16,
    crc: u32,
    packed: u64,
    bytes: u64,
    at: u64,
}

impl Archive {
    pub(crate) fn open(path: &Path) -> Result<Self, PullError> {
        let file = File::open(path).map_err(PullError::file(path, "open"))?;
        let meta = file.metadata().map_err(PullError::file(path, "read"))?;
        let mut archive = Self {
            file,
            name: path.display().to_string(),
            bytes: meta.len(),
            directory: Vec::new(),
        };
        archive.directory = archive.read_directory()?;
        Ok(archive)
    }

    fn error(&self, detail: impl Into<String>) -> PullError {
        PullError::Archive {
            file: self.name.clone(),
            detail: detail.into(),
        }
    }

    /// Bytes that have to be inside the file.
    fn read_at(&mut self, at: u64, count: u64) -> Result<Vec<u8>, PullError> {
        let end = at.checked_add(count).filter(|&end| end <= self.bytes);
        let (Some(_), Ok(length)) = (end, usize::try_from(count)) else {
            return Err(self.error("ends too early"));
        };
        let mut bytes = vec![0; length];
        let read = self.file.seek(SeekFrom::Start(at));
        let read = read.and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|error| self.error(error.to_string()))?;
        Ok(bytes)
    }

    /// The directory is at the end, behind all members, and the very end says where.
    fn read_directory(&mut self) -> Result<Vec<u8>, PullError> {
        let tail_bytes = self.bytes.min(END_BYTES + LONGEST_COMMENT);
        let tail_at = self.bytes - tail_bytes;
        let tail = self.read_at(tail_at, tail_bytes)?;
        let end = (0..tail.len().saturating_sub(END_BYTES as usize - 1))
            .rev()
            .find(|&at| {
                let record = &tail[at..];
                let comment = usize::from(u16_at(record, 20));
                record.starts_with(b"PK\x05\x06") && record.len() == END_BYTES as usize + comment
            });
        let Some(end) = end else {
            return Err(self.error("is not a ZIP file, or not a whole one"));
        };
        let record = &tail[end..];
        let (mut bytes, mut at) = (u32_at(record, 12), u32_at(record, 16));
        let end_at = tail_at + end as u64;
        if let Some(locator_at) = end_at.checked_sub(LOCATOR_BYTES) {
            let locator = self.read_at(locator_at, LOCATOR_BYTES)?;
            if locator.starts_with(b"PK\x06\x07") {
                let record = self.read_at(u64_at(&locator, 8), END64_BYTES)?;
                if !record.starts_with(b"PK\x06\x06") {
                    return Err(self.error("has a broken end"));
                }
                (bytes, at) = (u64_at(&record, 40), u64_at(&record, 48));
            }
        }
        if bytes > LARGEST_DIRECTORY {
            return Err(self.error(format!("has a directory of {bytes} bytes")));
        }
        self.read_at(at, bytes)
    }

    fn find(&self, wanted: &str) -> Result<Member, PullError> {
        let mut rest = self.directory.as_slice();
        while rest.starts_with(b"PK\x01\x02") && rest.len() >= ENTRY_BYTES {
            let [name, extra, comment] = [28, 30, 32].map(|at| usize::from(u16_at(rest, at)));
            let length = ENTRY_BYTES + name + extra + comment;
            if length > rest.len() {
                break;
            }
            let (entry, tail) = rest.split_at(length);
            if &entry[ENTRY_BYTES..ENTRY_BYTES + name] == wanted.as_bytes() {
                let extra = &entry[ENTRY_BYTES + name..ENTRY_BYTES + name + extra];
                return member(entry, extra)
                    .ok_or_else(|| self.error(format!("{wanted} has a broken entry")));
            }
            rest = tail;
        }
        Err(self.error(format!("has no member {wanted}")))
    }

    /// How long a member is, unpacked.
    pub(crate) fn member_bytes(&self, name: &str) -> Result<u64, PullError> {
        Ok(self.find(name)?.bytes)
    }

    /// Unpacks a member, piece by piece.
    pub(crate) fn unpack(
        &mut self,
        name: &str,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), PullError>,
    ) -> Result<(), PullError> {
        let member = self.find(name)?;
        if member.flags & ENCRYPTED != 0 {
            return Err(self.error(format!("{name} is encrypted")));
        }
        let local = self.read_at(member.at, LOCAL_BYTES)?;
        if !local.starts_with(b"PK\x03\x04") {
            return Err(self.error(format!("{name} is not where it should be")));
        }
        // Follows from the above without overflow: the offset is inside the file.
        let start = LOCAL_BYTES + u64::from(u16_at(&local, 26)) + u64::from(u16_at(&local, 28));
        let start = member.at + start;
        let end = start.checked_add(member.packed);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(self.error(format!("{name} does not fit into the file")));
        }
        let sought = self.file.seek(SeekFrom::Start(start));
        sought.map_err(|error| self.error(error.to_string()))?;
        let packed = BufReader::with_capacity(BUFFER_BYTES, (&self.file).take(member.packed));
        let unpacked: Box<dyn Read> = match member.method {
            0 => Box::new(packed),
            8 => Box::new(DeflateDecoder::new(packed)),
            other => return Err(self.error(format!("{name} is packed by method {other}"))),
        };
        match pour(unpacked, member, sink) {
            Ok(()) => Ok(()),
            Err(Spilt::Reading(error)) => Err(self.error(format!("{name}: {error}"))),
            Err(Spilt::Sink(error)) => Err(error),
        }
    }
}

/// An error while a member is read, or in the callback that takes its bytes.
enum Spilt {
    Reading(io::Error),
    Sink(PullError),
}

fn pour(
    mut from: impl Read,
    member: Member,
    sink: &mut dyn FnMut(&[u8]) -> Result<(), PullError>,
) -> Result<(), Spilt> {
    let broken = |detail| Spilt::Reading(io::Error::other(detail));
    let mut buffer = vec![0; BUFFER_BYTES];
    let (mut crc, mut left) = (Crc::new(), member.bytes);
    loop {
        let count = from.read(&mut buffer).map_err(Spilt::Reading)?;
        if count == 0 {
            break;
        }
        left = left
            .checked_sub(count as u64)
            .ok_or_else(|| broken("is longer than its declared size"))?;
        crc.update(&buffer[..count]);
        sink(&buffer[..count]).map_err(Spilt::Sink)?;
    }
    if left > 0 || crc.sum() != member.crc {
        return Err(broken("is damaged"));
    }
    Ok(())
}

/// An entry of the directory. Large numbers are in the extra field, in a fixed order, but
/// only those that did not fit.
fn member(entry: &[u8], mut extra: &[u8]) -> Option<Member> {
    let mut numbers = [24, 20, 42].map(|at| u32_at(entry, at));
    while extra.len() >= 4 && numbers.contains(&ELSEWHERE) {
        let (kind, length) = (u16_at(extra, 0), usize::from(u16_at(extra, 2)));
        let mut field = extra.get(4..4 + length)?;
        extra = &extra[4 + length..];
        if kind != ZIP64_FIELD {
            continue;
        }
        for number in numbers.iter_mut().filter(|number| **number == ELSEWHERE) {
            let (value, rest) = field.split_first_chunk::<8>()?;
            *number = u64::from_le_bytes(*value);
            field = rest;
        }
        break;
    }
    let [bytes, packed, at] = numbers;
    Some(Member {
        flags: u16_at(entry, 8),
        method: u16_at(entry, 10),
        crc: u32::from_le_bytes(array(entry, 16)),
        packed,
        bytes,
        at,
    })
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let bytes = bytes
        .get(at..at + N)
        .and_then(|bytes| bytes.try_into().ok());
    bytes.expect("records are cut to their length before they are read")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

fn u32_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(array(bytes, at)))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}
