//! Text to tokens and back.
//!
//! A request enters as checked JSON and leaves as tokens with limits; the tokens of the
//! answer enter and leave as text that never splits a character. Everything here is
//! synchronous and free of I/O after loading: the frontend calls it on its own threads.
//!
//! | module | what it does |
//! |---|---|
//! | [`prepare`] | the whole way in: [`Preprocessor`] |
//! | [`template`] | a conversation becomes one text, by the model's Jinja template |
//! | [`tokenizer`] | text becomes tokens: the embedded vocabulary or a model's own |
//! | `conversation` | messages, tools and variables as templates see them |
//! | `output` | the grammar of an answer: calls of tools, constrained output |
//! | `guard` | what users write is not taken for what the template writes |
//! | [`encode`] | the same, paying only for text not seen before |
//! | [`piece`], [`piece_cache`] | where text may be cut, and what is remembered of the pieces |
//! | [`text_stream`] | the way out: [`detokenize`], then [`stop`] strings |
//! | [`corpus`] | the forty articles that conversations start from |

mod conversation;
pub mod corpus;
pub mod detokenize;
pub mod encode;
pub mod error;
mod guard;
mod output;
pub mod piece;
pub mod piece_cache;
pub mod prepare;
pub mod stop;
pub mod template;
pub mod text_stream;
pub mod tokenizer;

pub use corpus::{Article, articles};
pub use error::{LoadError, PrepareError, TemplateFault, TokenizerFault};
pub use piece_cache::CacheStats;
pub use prepare::{
    ContextNeed, Prepared, PreprocessConfig, Preprocessor, TemplateFile, Vocabulary,
};
pub use text_stream::TextStream;
pub use tokenizer::{Specials, Tokenizer};
