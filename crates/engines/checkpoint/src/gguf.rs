//! GGUF files: metadata and tensors, versions 2 and 3, little endian.

mod cursor;
mod model;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;

use super::source::{Source, SourceFile};
use super::{LoadError, TensorInfo};
use crate::error::{Fault, GgufError, TensorFault};
use crate::format::Format;

use cursor::Cursor;

pub use cursor::Value;

const MAGIC: &[u8; 4] = b"GGUF";
const DEFAULT_ALIGNMENT: u64 = 32;
/// More than any writer uses.
const LARGEST_ALIGNMENT: u64 = 1 << 20;
const MOST_DIMENSIONS: u32 = 4;
/// Names in use have at most 64 bytes.
const LONGEST_NAME: u64 = 1 << 10;

/// The header of a GGUF file.
#[derive(Debug)]
pub struct Gguf {
    pub(super) file: SourceFile,
    pub(super) metadata: BTreeMap<String, Value>,
    /// By the file's own names.
    tensors: BTreeMap<String, Placed>,
}

#[derive(Debug)]
struct Placed {
    info: TensorInfo,
    /// From the beginning of the file.
    at: u64,
    bytes: usize,
}

impl Gguf {
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        Self::parse_file(SourceFile::open(path)?)
    }

    /// From any source; errors use `name`.
    pub fn parse(name: &str, source: impl Source + 'static) -> Result<Self, LoadError> {
        Self::parse_file(SourceFile::new(name, source))
    }

    fn parse_file(file: SourceFile) -> Result<Self, LoadError> {
        match parse(&file) {
            Ok((metadata, tensors)) => Ok(Self {
                file,
                metadata,
                tensors,
            }),
            Err(fault) => Err(file.error(fault)),
        }
    }

    pub fn metadata(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Tensors by the names that the file gives them.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> {
        let each = self.tensors.iter();
        each.map(|(name, placed)| (name.as_str(), &placed.info))
    }

    /// The bytes of a tensor by the file's own name.
    pub fn read(&self, name: &str, bytes: &mut Vec<u8>) -> Result<TensorInfo, LoadError> {
        let Some(placed) = self.tensors.get(name) else {
            return Err(self.file.error(Fault::NoTensor(name.to_owned())));
        };
        self.file
            .read_tensor(name, placed.at, placed.bytes, bytes)?;
        Ok(placed.info.clone())
    }
}

type Parsed = (BTreeMap<String, Value>, BTreeMap<String, Placed>);

fn parse(file: &SourceFile) -> Result<Parsed, Fault> {
    let mut cursor = Cursor::new(file);
    if &cursor.bytes::<4>()? != MAGIC {
        return Err(GgufError::Magic.into());
    }
    match cursor.u32()? {
        2 | 3 => {}
        other if matches!(other.swap_bytes(), 1..=3) => {
            return Err(GgufError::BigEndian.into());
        }
        other => return Err(GgufError::Version(other).into()),
    }
    let tensor_count = cursor.u64()?;
    let value_count = cursor.u64()?;
    let metadata = metadata(&mut cursor, value_count)?;
    let mut tensors = Vec::new();
    for _ in 0..tensor_count {
        let tensor = tensor(&mut cursor)?;
        tensors.push(tensor);
    }
    let alignment = alignment(&metadata)?;
    let start = cursor.at().next_multiple_of(alignment);
    Ok((metadata, place(tensors, start, alignment, file.size())?))
}

/// Counts need no bound of their own: the header ends where the file does.
fn metadata(cursor: &mut Cursor<'_>, count: u64) -> Result<BTreeMap<String, Value>, GgufError> {
    let mut metadata = BTreeMap::new();
    for _ in 0..count {
        let key = cursor.string(LONGEST_NAME)?;
        let value = cursor.value().map_err(|error| GgufError::Value {
            key: key.clone(),
            error: Box::new(error),
        })?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(GgufError::Twice(key));
        }
    }
    Ok(metadata)
}

fn alignment(metadata: &BTreeMap<String, Value>) -> Result<u64, GgufError> {
    match metadata.get("general.alignment") {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(value) => value
            .unsigned()
            .filter(|alignment| alignment.is_power_of_two() && *alignment <= LARGEST_ALIGNMENT)
            .ok_or_else(|| GgufError::Alignment(format!("{value:?}"))),
    }
}

/// A tensor's name, what it is and where it begins in the data.
fn tensor(cursor: &mut Cursor<'_>) -> Result<(String, TensorInfo, u64), Fault> {
    let name = cursor.string(LONGEST_NAME)?;
    let dimensions = cursor.u32()?;
    if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
        return Err(TensorFault::Dimensions(dimensions).of(name));
    }
    let mut shape = [1; MOST_DIMENSIONS as usize];
    for length in &mut shape[..dimensions as usize] {
        *length = usize::try_from(cursor.u64()?).unwrap_or(usize::MAX);
    }
    let kind = cursor.u32()?;
    let offset = cursor.u64()?;
    let [columns, rows @ ..] = shape;
    let rows = rows.into_iter().try_fold(1_usize, usize::checked_mul);
    let Some(rows) = rows.filter(|rows| *rows > 0 && columns > 0) else {
        return Err(TensorFault::Shape(shape.to_vec()).of(name));
    };
    let format = match format(kind) {
        Ok(format) => format,
        Err(fault) => return Err(fault.of(name)),
    };
    let info = TensorInfo {
        format,
        rows,
        columns,
    };
    Ok((name, info, offset))
}

/// Names for errors are those of ggml.
fn format(kind: u32) -> Result<Format, TensorFault> {
    let name = match kind {
        0 => return Ok(Format::F32),
        1 => return Ok(Format::F16),
        2 => return Ok(Format::Q4_0),
        3 => return Ok(Format::Q4_1),
        6 => return Ok(Format::Q5_0),
        7 => return Ok(Format::Q5_1),
        8 => return Ok(Format::Q8_0),
        12 => return Ok(Format::Q4K),
        13 => return Ok(Format::Q5K),
        14 => return Ok(Format::Q6K),
        30 => return Ok(Format::Bf16),
        9 => "Q8_1",
        10 => "Q2_K",
        11 => "Q3_K",
        15 => "Q8_K",
        16 => "IQ2_XXS",
        17 => "IQ2_XS",
        18 => "IQ3_XXS",
        19 => "IQ1_S",
        20 => "IQ4_NL",
        21 => "IQ3_S",
        22 => "IQ2_S",
        23 => "IQ4_XS",
        24 => "I8",
        25 => "I16",
        26 => "I32",
        27 => "I64",
        28 => "F64",
        29 => "IQ1_M",
        34 => "TQ1_0",
        35 => "TQ2_0",
        39 => "MXFP4",
        40 => "NVFP4",
        _ => return Err(TensorFault::StoredAs(format!("type {kind}"))),
    };
    Err(TensorFault::StoredAs(name.to_owned()))
}

/// Every tensor must be aligned, inside the file and apart from the others.
fn place(
    mut tensors: Vec<(String, TensorInfo, u64)>,
    start: u64,
    alignment: u64,
    size: u64,
) -> Result<BTreeMap<String, Placed>, Fault> {
    tensors.sort_by_key(|(_, _, offset)| *offset);
    let mut placed = BTreeMap::new();
    let mut free = start;
    for (name, info, offset) in tensors {
        let TensorInfo {
            format,
            rows,
            columns,
        } = info;
        let Some(row) = format.bytes_for(columns) else {
            return Err(TensorFault::PartialBlock { columns, format }.of(name));
        };
        let bytes = row.checked_mul(rows);
        let at = start.checked_add(offset);
        let end = at
            .zip(bytes)
            .and_then(|(at, bytes)| at.checked_add(bytes as u64));
        let (Some(at), Some(bytes), Some(end)) = (at, bytes, end) else {
            return Err(TensorFault::TooLarge.of(name));
        };
        if !offset.is_multiple_of(alignment) {
            return Err(TensorFault::Unaligned { alignment, offset }.of(name));
        }
        if at < free {
            return Err(TensorFault::Overlap(at).of(name));
        }
        if end > size {
            return Err(TensorFault::PastEnd { end, size }.of(name));
        }
        free = end;
        let info = TensorInfo {
            format,
            rows,
            columns,
        };
        if placed
            .insert(name.clone(), Placed { info, at, bytes })
            .is_some()
        {
            return Err(TensorFault::Twice.of(name));
        }
    }
    Ok(placed)
}
