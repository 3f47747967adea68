//! Constrained output: which tokens may come next.
//!
//! A [`Vocabulary`] compiles the [grammar](contract::Grammar) of a request into a [`Matcher`]. The
//! matcher follows the answer token by token and knows before each draw which tokens the grammar
//! allows. The work is done by the crate `llguidance`; this crate fixes how it is used.
//!
//! # Guarantees
//!
//! - **An answer that ended by itself is in the grammar.** The end-of-text tokens are allowed where
//!   the grammar is complete, and nowhere else.
//! - **Compiling delays nobody else.** It is bounded, done before a request joins a batch
//!   ([`Vocabulary::compile`]), and remembered.
//! - **No grammar slows its batch for long.** An ambiguous one (`e: e e | "a"`) costs more with every
//!   token. An answer has a budget of parser items; the request of one that exceeds it fails.
//!
//! Only drawn tokens move a matcher on, so speculation needs no way back: a draft that is not
//! accepted was never consumed.

mod matcher;
mod slots;
mod vocabulary;

#[cfg(test)]
mod tests;

use contract::Grammar;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::ApproximateTokEnv;
use llguidance::{JsonCompileOptions, ParserFactory};
use serde_json::{Value, json};

pub use self::matcher::{Mask, Matcher};
pub use self::slots::{Follower, SlotMatchers};
pub use self::vocabulary::{Token, Vocabulary};

/// A grammar that is none, or that asks for too much.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GrammarError(String);

impl GrammarError {
    /// No token fits: the grammar cannot be completed from here.
    pub fn nothing_allowed() -> Self {
        Self("no token can follow".to_owned())
    }

    fn too_ambiguous() -> Self {
        Self(
            "the grammar is too ambiguous: the text so far can be read in too many ways; \
             write repetition with `*` and `+` instead of recursion"
                .to_owned(),
        )
    }

    /// Without the dump of internal state that follows the message.
    fn new(error: &impl std::fmt::Display) -> Self {
        const LONGEST: usize = 400;
        let text = error.to_string();
        let text = text.split("\n<state>").next().unwrap_or_default().trim();
        Self(text.chars().take(LONGEST).collect())
    }
}

/// Bytes of a grammar's source: many tools with long schemas. What is remembered is bounded by it.
const LONGEST_SOURCE: usize = 1 << 20;

/// Checks a grammar without a vocabulary. What passes compiles for any model, unless it names
/// special tokens.
pub fn check(grammar: &Grammar) -> Result<(), GrammarError> {
    let tokens = ApproximateTokEnv::single_byte_env();
    let factory = vocabulary::factory(&tokens, &[])?;
    compiled(&factory, grammar).map(drop)
}

fn compiled(factory: &ParserFactory, grammar: &Grammar) -> Result<Matcher, GrammarError> {
    let length = grammar.source().len();
    if length > LONGEST_SOURCE {
        let problem = format_args!("{length} bytes are more than {LONGEST_SOURCE}");
        return Err(GrammarError::new(&problem));
    }
    let parser = factory
        .create_parser(top_level(grammar)?)
        .map_err(|error| GrammarError::new(&error))?;
    Matcher::new(parser)
}

fn top_level(grammar: &Grammar) -> Result<TopLevelGrammar, GrammarError> {
    Ok(match grammar {
        Grammar::JsonSchema(schema) => {
            let mut schema =
                serde_json::from_str(schema).map_err(|error| GrammarError::new(&error))?;
            // `true` and `false` are schemas too.
            if !matches!(schema, Value::Object(_)) {
                schema = json!({ "allOf": [schema] });
            }
            json_options().apply_to(&mut schema);
            TopLevelGrammar::from_json_schema(schema)
        }
        Grammar::Regex(regex) => TopLevelGrammar::from_regex(regex),
        Grammar::Lark(grammar) => TopLevelGrammar::from_lark(grammar.to_string()),
    })
}

/// One space after `,` and `:` and none elsewhere, as models mostly write: small ones that may
/// put any white space anywhere put it there forever.
pub fn json_options() -> JsonCompileOptions {
    JsonCompileOptions {
        item_separator: ", ".to_owned(),
        key_separator: ": ".to_owned(),
        whitespace_flexible: false,
        ..JsonCompileOptions::default()
    }
}
