//! Splits the text of a chat answer, as it streams, into reasoning, content and tool calls.
//!
//! Models write all three into one text, each family in its own format. [`AnswerParser`] takes
//! that text in pieces of any size and returns [`Part`]s as early as they are certain. It is a
//! machine over characters that never looks back, so the parts do not depend on how the text was
//! cut, and a character costs constant time. Nothing recurses: nesting is a counter, or a stack
//! on the heap.
//!
//! Text that begins like a call but is none is returned as content, unchanged. What is held back
//! until that is decided is at most what the answer has.
//!
//! | module | what it does |
//! |---|---|
//! | [`format`] | which formats there are, and which one a chat template asks for |
//! | [`parser`] | the whole way: [`AnswerParser`] |
//! | `reasoning` | `<think>` … `</think>` |
//! | `hermes`, `llama3`, `mistral`, `pythonic` | the formats of tool calls |
//! | `call_object` | a call that is a JSON object with a name and arguments |
//! | `arguments` | the value of `arguments`, as the text of an object |
//! | `json` | where keys and values of a JSON object begin and end |
//! | `literal` | markers, recognised character by character |
//! | `output` | parts, and which white space is content |

mod arguments;
mod call_object;
pub mod format;
mod hermes;
mod json;
mod literal;
mod llama3;
mod mistral;
mod output;
pub mod parser;
mod pythonic;
mod reasoning;
#[cfg(test)]
mod testing;

pub use format::{AnswerFormat, ReasoningFormat, ToolFormat};
pub use parser::AnswerParser;

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Reasoning(String),
    Content(String),
    /// A call's name is known. Calls are numbered from 0, in order.
    Call {
        index: u32,
        name: String,
    },
    /// More of the call's arguments: concatenated they are the text of one JSON object, unless
    /// the model wrote something else or the answer was cut off.
    Arguments {
        index: u32,
        text: String,
    },
}
