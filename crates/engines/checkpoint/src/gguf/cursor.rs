//! The header of a GGUF file, value by value.
//!
//! A header may claim any number of anything: nothing is allocated ahead of the bytes that
//! were really read, and the whole header has a limit.

use crate::error::GgufError;
use crate::source::SourceFile;

/// Vocabularies take some ten million bytes; no header is near this.
const LARGEST_HEADER: u64 = 64 << 20;
const PIECE: u64 = 64 << 10;
/// Arrays of arrays have no use that we know.
const DEEPEST: usize = 4;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Bool(bool),
    String(String),
    Strings(Vec<String>),
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    /// An array that nobody asks for: only numbers of 32 bits and strings are kept, so that
    /// a value takes little more room than its bytes.
    Skipped,
}

impl Value {
    pub fn unsigned(&self) -> Option<u64> {
        match self {
            Self::Unsigned(number) => Some(*number),
            Self::Signed(number) => u64::try_from(*number).ok(),
            Self::Float(_)
            | Self::Bool(_)
            | Self::String(_)
            | Self::Strings(_)
            | Self::Integers(_)
            | Self::Floats(_)
            | Self::Skipped => None,
        }
    }

    pub fn float(&self) -> Option<f64> {
        let Self::Float(number) = self else {
            return None;
        };
        Some(*number)
    }

    pub fn bool(&self) -> Option<bool> {
        let Self::Bool(set) = self else {
            return None;
        };
        Some(*set)
    }

    pub fn string(&self) -> Option<&str> {
        let Self::String(text) = self else {
            return None;
        };
        Some(text)
    }

    pub fn strings(&self) -> Option<&[String]> {
        let Self::Strings(texts) = self else {
            return None;
        };
        Some(texts)
    }
}

/// The types of values, as the file numbers them.
#[derive(Clone, Copy)]
enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

/// A place in the header.
pub(super) struct Cursor<'a> {
    file: &'a SourceFile,
    end: u64,
    piece: Vec<u8>,
    piece_at: u64,
    at: u64,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(file: &'a SourceFile) -> Self {
        Self {
            file,
            end: file.size().min(LARGEST_HEADER),
            piece: Vec::new(),
            piece_at: 0,
            at: 0,
        }
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The next bytes, if the header has so many.
    fn take(&mut self, count: u64) -> Result<&[u8], GgufError> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.end);
        let end = end.ok_or(GgufError::Truncated {
            at: self.at,
            expected: count,
        })?;
        if end > self.piece_at + self.piece.len() as u64 {
            let length = (self.end - self.at).min(count.max(PIECE));
            self.file.read(self.at, length as usize, &mut self.piece)?;
            self.piece_at = self.at;
        }
        let from = (self.at - self.piece_at) as usize;
        self.at = end;
        Ok(&self.piece[from..from + count as usize])
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], GgufError> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.take(N as u64)?);
        Ok(bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, GgufError> {
        self.bytes().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, GgufError> {
        self.bytes().map(u64::from_le_bytes)
    }

    pub(super) fn string(&mut self, longest: u64) -> Result<String, GgufError> {
        let length = self.u64()?;
        if length > longest {
            return Err(GgufError::LongString(length));
        }
        let bytes = self.take(length)?;
        let text = str::from_utf8(bytes).map_err(|_| GgufError::NotUtf8)?;
        Ok(text.to_owned())
    }

    fn kind(&mut self) -> Result<Kind, GgufError> {
        Ok(match self.u32()? {
            0 => Kind::U8,
            1 => Kind::I8,
            2 => Kind::U16,
            3 => Kind::I16,
            4 => Kind::U32,
            5 => Kind::I32,
            6 => Kind::F32,
            7 => Kind::Bool,
            8 => Kind::String,
            9 => Kind::Array,
            10 => Kind::U64,
            11 => Kind::I64,
            12 => Kind::F64,
            other => return Err(GgufError::ValueType(other)),
        })
    }

    pub(super) fn value(&mut self) -> Result<Value, GgufError> {
        let kind = self.kind()?;
        self.value_of(kind, 0)
    }

    fn value_of(&mut self, kind: Kind, depth: usize) -> Result<Value, GgufError> {
        Ok(match kind {
            Kind::U8 => Value::Unsigned(u8::from_le_bytes(self.bytes()?).into()),
            Kind::I8 => Value::Signed(i8::from_le_bytes(self.bytes()?).into()),
            Kind::U16 => Value::Unsigned(u16::from_le_bytes(self.bytes()?).into()),
            Kind::I16 => Value::Signed(i16::from_le_bytes(self.bytes()?).into()),
            Kind::U32 => Value::Unsigned(self.u32()?.into()),
            Kind::I32 => Value::Signed(i32::from_le_bytes(self.bytes()?).into()),
            Kind::F32 => Value::Float(f32::from_le_bytes(self.bytes()?).into()),
            Kind::Bool => match self.bytes()? {
                [0] => Value::Bool(false),
                [1] => Value::Bool(true),
                [other] => return Err(GgufError::Bool(other)),
            },
            Kind::String => Value::String(self.string(LARGEST_HEADER)?),
            Kind::Array => self.array(depth)?,
            Kind::U64 => Value::Unsigned(self.u64()?),
            Kind::I64 => Value::Signed(i64::from_le_bytes(self.bytes()?)),
            Kind::F64 => Value::Float(f64::from_le_bytes(self.bytes()?)),
        })
    }

    fn array(&mut self, depth: usize) -> Result<Value, GgufError> {
        if depth == DEEPEST {
            return Err(GgufError::DeepArray);
        }
        let kind = self.kind()?;
        let count = self.u64()?;
        Ok(match kind {
            Kind::String => Value::Strings(self.many(count, |from| from.string(LARGEST_HEADER))?),
            Kind::F32 => {
                Value::Floats(self.many(count, |from| Ok(f32::from_le_bytes(from.bytes()?)))?)
            }
            Kind::U32 => Value::Integers(self.many(count, |from| Ok(from.u32()?.into()))?),
            Kind::I32 => Value::Integers(
                self.many(count, |from| Ok(i32::from_le_bytes(from.bytes()?).into()))?,
            ),
            Kind::U8
            | Kind::I8
            | Kind::U16
            | Kind::I16
            | Kind::Bool
            | Kind::Array
            | Kind::U64
            | Kind::I64
            | Kind::F64 => {
                for _ in 0..count {
                    self.value_of(kind, depth + 1)?;
                }
                Value::Skipped
            }
        })
    }

    /// Grows with what is read, whatever the count says.
    fn many<T>(
        &mut self,
        count: u64,
        mut one: impl FnMut(&mut Self) -> Result<T, GgufError>,
    ) -> Result<Vec<T>, GgufError> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(one(self)?);
        }
        Ok(all)
    }
}
