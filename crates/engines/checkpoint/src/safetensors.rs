//! Safetensors files: a header of JSON, then the bytes of tensors without gaps.
//!
//! Wider than what a model needs: heads for speculation keep integers and truth values too.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::source::{Source, SourceFile};
use super::{LoadError, TensorInfo};
use crate::error::{Fault, SafetensorsError, TensorFault};
use crate::format::Format;

/// The limit of the format's own library.
const LARGEST_HEADER: u64 = 100_000_000;
/// The header's length comes first.
const LENGTH: u64 = 8;

/// Types of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Dtype {
    #[serde(rename = "BOOL")]
    Bool,
    U8,
    I8,
    #[serde(rename = "F8_E4M3")]
    F8E4M3,
    #[serde(rename = "F8_E5M2")]
    F8E5M2,
    U16,
    I16,
    F16,
    #[serde(rename = "BF16")]
    Bf16,
    U32,
    I32,
    F32,
    U64,
    I64,
    F64,
}

impl Dtype {
    /// Bytes of an element.
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::U8 | Self::I8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// None if no model is computed in it.
    pub const fn format(self) -> Option<Format> {
        match self {
            Self::F32 => Some(Format::F32),
            Self::F16 => Some(Format::F16),
            Self::Bf16 => Some(Format::Bf16),
            Self::F8E4M3 => Some(Format::E4m3),
            Self::Bool
            | Self::U8
            | Self::I8
            | Self::F8E5M2
            | Self::U16
            | Self::I16
            | Self::U32
            | Self::I32
            | Self::U64
            | Self::I64
            | Self::F64 => None,
        }
    }
}

/// A tensor in a safetensors file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafeTensor {
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// From the beginning of the file.
    pub(super) at: u64,
    pub(super) bytes: usize,
}

impl SafeTensor {
    /// As a matrix of a model, or why it is none.
    pub(crate) fn info(&self) -> Result<TensorInfo, TensorFault> {
        let Some(format) = self.dtype.format() else {
            return Err(TensorFault::StoredAs(format!("{:?}", self.dtype)));
        };
        let (rows, columns) = match self.shape[..] {
            [columns] => (1, columns),
            [rows, columns] => (rows, columns),
            [] | [_, _, _, ..] => return Err(TensorFault::Shape(self.shape.clone())),
        };
        Ok(TensorInfo {
            format,
            rows,
            columns,
        })
    }
}

/// An opened safetensors file.
#[derive(Debug)]
pub struct SafeTensors {
    pub(super) file: SourceFile,
    pub(super) tensors: BTreeMap<String, SafeTensor>,
}

impl SafeTensors {
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        Self::parse_file(SourceFile::open(path)?)
    }

    /// From any source; errors use `name`.
    pub fn parse(name: &str, source: impl Source + 'static) -> Result<Self, LoadError> {
        Self::parse_file(SourceFile::new(name, source))
    }

    fn parse_file(file: SourceFile) -> Result<Self, LoadError> {
        match parse(&file) {
            Ok(tensors) => Ok(Self { file, tensors }),
            Err(fault) => Err(file.error(fault)),
        }
    }

    /// All tensors with their names.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &SafeTensor)> {
        let each = self.tensors.iter();
        each.map(|(name, tensor)| (name.as_str(), tensor))
    }

    pub fn tensor(&self, name: &str) -> Option<&SafeTensor> {
        self.tensors.get(name)
    }

    /// The bytes of a tensor, into `bytes`, which is emptied first.
    pub fn read(&self, name: &str, bytes: &mut Vec<u8>) -> Result<&SafeTensor, LoadError> {
        let Some(tensor) = self.tensors.get(name) else {
            return Err(self.file.error(Fault::NoTensor(name.to_owned())));
        };
        self.file
            .read_tensor(name, tensor.at, tensor.bytes, bytes)?;
        Ok(tensor)
    }
}

/// A tensor as the header has it.
#[derive(Deserialize)]
struct Entry {
    dtype: Dtype,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// The header. A name that comes twice is an error, which an ordinary map would hide.
struct Header(BTreeMap<String, Entry>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Header;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<HashMap<String, String>>()?;
                        continue;
                    }
                    let entry = map.next_value().map_err(|error| {
                        A::Error::custom(format_args!("tensor {name}: {error}"))
                    })?;
                    if entries.insert(name.clone(), entry).is_some() {
                        return Err(A::Error::custom(format_args!(
                            "tensor {name} appears twice"
                        )));
                    }
                }
                Ok(Header(entries))
            }
        }

        from.deserialize_map(Entries)
    }
}

fn parse(file: &SourceFile) -> Result<BTreeMap<String, SafeTensor>, Fault> {
    let mut bytes = Vec::new();
    let read = file.read(0, LENGTH as usize, &mut bytes);
    read.map_err(|_| SafetensorsError::TooShort)?;
    let length = bytes
        .iter()
        .rev()
        .fold(0, |all, byte| all << 8 | u64::from(*byte));
    if length > LARGEST_HEADER.min(file.size() - LENGTH) {
        return Err(SafetensorsError::HeaderLength(length).into());
    }
    file.read(LENGTH, length as usize, &mut bytes)?;
    let Header(entries) = serde_json::from_slice(&bytes).map_err(SafetensorsError::Header)?;
    let start = LENGTH + length;
    let mut tensors = BTreeMap::new();
    for (name, entry) in entries {
        match tensor(entry, start) {
            Ok(tensor) => tensors.insert(name, tensor),
            Err(fault) => return Err(fault.of(name)),
        };
    }
    check_places(&tensors, start, file.size())?;
    Ok(tensors)
}

fn tensor(entry: Entry, start: u64) -> Result<SafeTensor, TensorFault> {
    let Entry {
        dtype,
        shape,
        data_offsets: [begin, end],
    } = entry;
    let bytes = shape
        .iter()
        .try_fold(dtype.size(), |all, length| all.checked_mul(*length));
    let length = end.checked_sub(begin);
    let at = start.checked_add(begin);
    if let (Some(bytes), Some(at)) = (bytes, at)
        && length == Some(bytes as u64)
    {
        return Ok(SafeTensor {
            dtype,
            shape,
            at,
            bytes,
        });
    }
    Err(TensorFault::Place {
        dtype: format!("{dtype:?}"),
        shape,
        begin,
        end,
    })
}

/// Tensors lie one after the other and fill the file.
fn check_places(
    tensors: &BTreeMap<String, SafeTensor>,
    start: u64,
    size: u64,
) -> Result<(), Fault> {
    let mut order: Vec<_> = tensors.iter().collect();
    order.sort_by_key(|(_, tensor)| (tensor.at, tensor.bytes));
    let mut free = start;
    for (name, tensor) in order {
        if tensor.at != free {
            let at = tensor.at;
            return Err(TensorFault::Gap { at, free }.of(name.as_str()));
        }
        free = free.saturating_add(tensor.bytes as u64);
    }
    if free == size {
        Ok(())
    } else {
        Err(SafetensorsError::End { end: free, size }.into())
    }
}
