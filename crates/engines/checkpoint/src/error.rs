//! Why a model's files cannot be used: which file, and what is wrong with it.
//!
//! Below the modules that find the faults, because folders and GGUF files share most of them.

use std::io;

use thiserror::Error;

use crate::format::Format;

/// Why a model cannot be used.
#[derive(Debug, Error)]
#[error("{file}: {fault}")]
pub struct LoadError {
    pub file: String,
    pub fault: Fault,
}

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum Fault {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    #[error(transparent)]
    Safetensors(#[from] SafetensorsError),
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("tensor {name} {fault}")]
    Tensor { name: String, fault: TensorFault },
    #[error("tensor {name}: {error}")]
    TensorRead { name: String, error: ReadError },
    #[error("there is no tensor {0}")]
    NoTensor(String),
}

/// Why bytes could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    #[error("not a file")]
    NotAFile,
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    #[error("cannot be read: {0}")]
    Read(io::Error),
    #[error("{count} bytes at {at} are more than the file's {size}")]
    PastEnd { at: u64, count: usize, size: u64 },
    #[error("{size} bytes, more than the {most} allowed")]
    TooLarge { size: usize, most: usize },
}

/// A shape that no model has.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("architectures and model_type contradict each other")]
    Contradiction,
    #[error("it has neither architectures nor model_type")]
    NoArchitecture,
    #[error("{what} cannot be {value}")]
    OutOfRange { what: &'static str, value: String },
    #[error("{hidden} is not divided evenly by {heads} heads")]
    UnevenHeads { hidden: usize, heads: usize },
    #[error("{heads} heads cannot share {kv_heads} heads of keys and values")]
    UnevenSharing { heads: usize, kv_heads: usize },
    #[error("heads of {0} have no pairs to rotate")]
    OddHeads(usize),
    #[error("heads of keys and of values differ in size")]
    KeysUnlikeValues,
    #[error("{divisors} divisors of rotation for heads of {head_size}")]
    Divisors { divisors: usize, head_size: usize },
    #[error("llama3 scaling: {0} is missing or not positive")]
    Llama3NotPositive(&'static str),
    #[error("llama3 scaling: low_freq_factor is not below high_freq_factor")]
    Llama3Order,
    #[error("a vocabulary of {size}, but {table} has {rows} rows")]
    Vocabulary {
        size: usize,
        table: &'static str,
        rows: usize,
    },
}

/// A sound model that needs what we lack.
#[derive(Debug, Error)]
pub enum Unsupported {
    #[error("models of class {0} are not supported")]
    Class(String),
    #[error("models of type {0} are not supported")]
    Type(String),
    #[error("models of architecture {0} are not supported")]
    Architecture(String),
    #[error(
        "quantization {0} is not supported, only FP8 with a scale per tensor or per output (compressed-tensors float-quantized, modelopt FP8): use such a checkpoint or one in BF16"
    )]
    Quantization(String),
    #[error("the activation {0} is not supported")]
    Activation(String),
    #[error("{0} is not supported")]
    Bias(&'static str),
    #[error("mixtures of experts are not supported")]
    Experts,
    #[error("sliding windows are not supported")]
    SlidingWindows,
    #[error("a sliding window of {0} is not supported")]
    SlidingWindow(usize),
    #[error("rotating a part of a head is not supported")]
    PartialRotation,
    #[error("rotating {rotated} of a head's {size} components is not supported")]
    RotatedComponents { rotated: usize, size: usize },
    #[error("rotation scaled by {0} is not supported")]
    RotationScaling(String),
    #[error("linear scaling of positions, {0}, is not supported")]
    LinearScaling(f32),
    #[error("tokenizers of model {0} are not supported")]
    Tokenizer(String),
    #[error("tokenizer.ggml.pre {0} is not supported")]
    Split(String),
    #[error("heads with {0} are not supported")]
    Head(&'static str),
}

/// What is wrong with one tensor; follows its name in a message.
#[derive(Debug, Error)]
pub enum TensorFault {
    #[error("appears twice")]
    Twice,
    #[error("is not part of such a model")]
    Unknown,
    #[error("is stored as {0}, which is not supported")]
    StoredAs(String),
    #[error("has {0} dimensions")]
    Dimensions(u32),
    #[error("cannot have the shape {0:?}")]
    Shape(Vec<usize>),
    #[error("is stored as F8_E4M3, but neither config.json nor hf_quant_config.json says how")]
    Undeclared,
    #[error("is stored as F8_E4M3, but there is no {0}")]
    NoScale(String),
    #[error("is not a scale: it is {0} and should be F32, F16 or BF16")]
    ScaleStoredAs(String),
    #[error(
        "has the shape {found:?}, which is neither one scale nor one for each of {rows} outputs"
    )]
    ScaleShape { found: Vec<usize>, rows: usize },
    #[error("has the shape {0:?}: one scale per layer is supported")]
    CacheScaleShape(Vec<usize>),
    #[error("has the number {0}, which cannot be a scale")]
    Scale(f32),
    #[error(
        "is malformed: {columns} columns are not whole blocks of {} in {format}",
        format.block_len()
    )]
    PartialBlock { columns: usize, format: Format },
    #[error("is too large to count")]
    TooLarge,
    #[error("is not aligned to {alignment}: {offset}")]
    Unaligned { alignment: u64, offset: u64 },
    #[error("overlaps another at {0}")]
    Overlap(u64),
    #[error("ends at {end}, the file at {size}")]
    PastEnd { end: u64, size: u64 },
    #[error("of {dtype} and shape {shape:?} cannot lie from {begin} to {end}")]
    Place {
        dtype: String,
        shape: Vec<usize>,
        begin: u64,
        end: u64,
    },
    #[error("begins at {at}, not where the one before it ends: {free}")]
    Gap { at: u64, free: u64 },
    #[error("is missing, it should be {rows} x {columns}")]
    Missing { rows: usize, columns: usize },
    #[error("should be {rows} x {columns}, it is {} x {}", found.0, found.1)]
    OtherShape {
        rows: usize,
        columns: usize,
        found: (usize, usize),
    },
    #[error("is not {0} integers")]
    NotIntegers(usize),
    #[error("is not a vector of F32")]
    NotVector,
    #[error("has another width than the head")]
    Width,
    #[error("leads out of the vocabulary")]
    OutsideVocabulary,
}

impl TensorFault {
    pub(crate) fn of(self, name: impl Into<String>) -> Fault {
        let name = name.into();
        Fault::Tensor { name, fault: self }
    }
}

/// What is wrong with an index of shards.
#[derive(Debug, Error)]
pub enum IndexError {
    #[error("{0} files")]
    TooMany(usize),
    #[error("{0:?} is not a file's name")]
    Name(String),
    #[error("tensor {tensor} is not in {file}")]
    NotThere { tensor: String, file: String },
}

/// What is wrong with a safetensors file as a whole.
#[derive(Debug, Error)]
pub enum SafetensorsError {
    #[error("not a safetensors file")]
    TooShort,
    #[error("not a safetensors file, or cut off: a header of {0} bytes")]
    HeaderLength(u64),
    #[error("its header: {0}")]
    Header(serde_json::Error),
    #[error("its tensors end at {end}, the file at {size}")]
    End { end: u64, size: u64 },
}

/// What is wrong with the header of a GGUF file.
#[derive(Debug, Error)]
pub enum GgufError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("not a GGUF file")]
    Magic,
    #[error("GGUF of big-endian machines is not supported")]
    BigEndian,
    #[error("GGUF version {0} is not supported")]
    Version(u32),
    #[error("the header ends at {at}, {expected} bytes were expected")]
    Truncated { at: u64, expected: u64 },
    #[error("a string of {0} bytes")]
    LongString(u64),
    #[error("a string that is not UTF-8")]
    NotUtf8,
    #[error("values have no type {0}")]
    ValueType(u32),
    #[error("a truth value of {0}")]
    Bool(u8),
    #[error("arrays within arrays within arrays")]
    DeepArray,
    #[error("{key}: {error}")]
    Value { key: String, error: Box<Self> },
    #[error("{0} appears twice")]
    Twice(String),
    #[error("general.alignment is {0}")]
    Alignment(String),
    #[error("{0} is missing")]
    Missing(String),
    #[error("{key} is not {expected}")]
    WrongType { key: String, expected: &'static str },
}

/// Tokens that make no tokenizer.
#[derive(Debug, Error)]
pub enum TokenizerError {
    #[error("{tokens} tokens, but embeddings of {most}")]
    TooMany { tokens: usize, most: usize },
    #[error("tokens {first} and {second} are both {text:?}")]
    SameText {
        first: usize,
        second: usize,
        text: String,
    },
    #[error("a token of {0} bytes")]
    LongToken(usize),
    #[error("tokens have no type {0}")]
    TokenType(i64),
    #[error("{0} names no token")]
    NoToken(String),
    #[error("{key}: {text:?} merges no tokens")]
    NoMerge { key: &'static str, text: String },
}

/// A draft head that is none, or not one of this target.
#[derive(Debug, Error)]
pub enum HeadError {
    #[error("it is not an object")]
    NotAnObject,
    #[error("its weights have neither midlayer.* nor layers.0.*")]
    NoLayer,
    #[error("its taps {taps:?} are not layers of a model that has {layers}")]
    Taps { taps: Vec<usize>, layers: usize },
    #[error("it is for a model of width {own}, not {target}")]
    Width { own: usize, target: usize },
    #[error("it has no embeddings, and the model's are {target} wide, not {own}")]
    NoEmbeddings { own: usize, target: usize },
}
