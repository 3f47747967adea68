//! How numbers are stored, and what they stand for.
//!
//! Quantised formats are those of GGUF: a row is cut into blocks, each with its own scale.

/// A way to store a row of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q4K,
    Q5K,
    Q6K,
}
