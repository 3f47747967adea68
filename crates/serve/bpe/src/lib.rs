//! Text to tokens by byte-pair merges, for the vocabularies that models have.
//!
//! Two families of `tokenizer.json` are read: vocabularies of bytes (GPT-2, Llama 3, Qwen, GLM,
//! DeepSeek, o200k and their kin), and vocabularies of characters with marked spaces and bytes
//! for what they lack (Llama 2, Mistral, Gemma). The tokens are those of the `tokenizers` library,
//! one by one; only the time differs. What is not understood to the last option is refused
//! ([`Unsupported`]), and then the library has to do the work.
//!
//! | module | what it does |
//! |---|---|
//! | `file`, [`rules`] | reads `tokenizer.json`, and says what is not understood |
//! | [`added`] | finds tokens that were added to the vocabulary |
//! | [`nfc`] | composes characters |
//! | [`split`], [`characters`] | where words end, by the models' patterns |
//! | [`joints`] | where words end without a pattern |
//! | [`words`], [`pairs`] | tokens by their bytes; merges by pair |
//! | [`merge`] | the merges of one word |
//! | [`vocabulary`], [`encoder`] | all of it together |
//!
//! # Guarantees
//!
//! - **Exact.** Tests and a fuzz target compare with the library; the step `vocabularies` of
//!   `cargo xtask test` does so for the genuine files of models.
//! - **No text is expensive.** Splitting looks at a character a fixed number of times, and a word
//!   of n bytes costs n log n.
//! - **Nothing is allocated per word.**

mod added;
mod alphabet;
mod characters;
mod encoder;
mod file;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod joints;
mod merge;
mod nfc;
mod pairs;
mod rules;
mod split;
mod vocabulary;
mod words;

pub use alphabet::{byte_of, push_bytes};
pub use encoder::{Encoder, Unsupported};
pub use merge::{Merge, Merger, Part};
pub use split::{Splitter, Step};
pub use words::{Word, Words};
