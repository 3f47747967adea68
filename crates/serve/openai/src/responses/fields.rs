//! The shapes that a Responses request may have.
//!
//! Items of `input` have their own file; the fields that are not acted on are in `tables`.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::input::Items;
use crate::request::JsonText;
use crate::request::extensions::RawExtensions;
use crate::request::list::{TextOr, bound, list};
use crate::request::object::object;
use crate::request::options::{LogitBias, TokenIds};
use crate::request::tools::MAX_TOOLS;
use crate::request::value::Stops;

/// OpenAI's own limit.
const MAX_METADATA: usize = 16;
/// More than there are values.
const MAX_INCLUDES: usize = 16;

object! {
    /// `POST /v1/responses`.
    ResponsesFields, "a JSON object" {
        model: String,
        input: TextOr<Items>,
        instructions: String,
        previous_response_id: String,
        store: bool,
        max_output_tokens: i64,
        temperature: f64,
        top_p: f64,
        stream: bool,
        stream_options: RawStreamOptions,
        tools: RawTools,
        tool_choice: RawToolChoice,
        parallel_tool_calls: bool,
        text: RawText,
        reasoning: RawReasoning,
        include: Include,
        metadata: Metadata,
        user: String,
        safety_identifier: String,
        prompt_cache_key: String,
        top_k: i64,
        min_p: f64,
        seed: i64,
        presence_penalty: f64,
        frequency_penalty: f64,
        repetition_penalty: f64,
        stop: TextOr<Stops>,
        stop_token_ids: TokenIds,
        logit_bias: LogitBias,
        chat_template_kwargs: JsonText,
        conversation_id: String,
        cache_salt: String,
        nvext: RawExtensions,
    }
}

object! {
    RawStreamOptions, "an object" {
        include_obfuscation: bool,
    }
}

object! {
    RawTool, "a tool object" {
        r#type: String,
        name: String,
        description: String,
        parameters: JsonText,
        strict: bool,
    }
}

object! {
    RawNamedTool, "an object that names a function" {
        r#type: String,
        name: String,
    }
}

object! {
    RawText, "an object" {
        format: RawFormat,
    }
}

object! {
    RawFormat, "a format object" {
        r#type: String,
        name: String,
        description: String,
        schema: JsonText,
        strict: bool,
    }
}

object! {
    RawReasoning, "an object" {
        effort: String,
    }
}

list! {
    /// `tools`.
    RawTools(RawTool), MAX_TOOLS, "tools"
}

list! {
    /// `include`.
    Include(String), MAX_INCLUDES, "entries"
}

/// `tool_choice`: a word, or an object that names a function.
#[derive(Debug)]
pub(super) enum RawToolChoice {
    Word(String),
    /// Boxed, because the other kind is the rule.
    Named(Box<RawNamedTool>),
}

impl<'de> Deserialize<'de> for RawToolChoice {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Choice;

        impl<'de> Visitor<'de> for Choice {
            type Value = RawToolChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", \"auto\", \"required\" or an object that names a function")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<RawToolChoice, E> {
                Ok(RawToolChoice::Word(word.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<RawToolChoice, A::Error> {
                let named = RawNamedTool::deserialize(MapAccessDeserializer::new(members))?;
                Ok(RawToolChoice::Named(Box::new(named)))
            }
        }

        source.deserialize_any(Choice)
    }
}

/// `metadata`: texts under names.
#[derive(Debug)]
pub(super) struct Metadata(pub(super) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Metadata;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Metadata, A::Error> {
                let mut all = BTreeMap::new();
                while let Some((name, value)) = members.next_entry()? {
                    bound(all.len(), MAX_METADATA, "pairs")?;
                    all.insert(name, value);
                }
                Ok(Metadata(all))
            }
        }

        source.deserialize_map(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::super::input::RawItem;
    use super::super::tables::*;
    use super::*;
    use crate::request::parts::RawPart;
    use crate::request::support::page::{Place, check_listed_once, page};

    const ABOUT: &str = "\
# Request fields of the Responses API

Written by `cargo xtask codegen` from the code that reads requests.

The rules are those of [the other endpoints](request-fields.md): a field of `POST /v1/responses` has an
effect, or it is refused with status 400 and a message that names it, or it is in the last table with
the values that are accepted because they ask for nothing. `null` means that the field is absent.

- Items of `input` are messages of text, `function_call`, `function_call_output` and `reasoning`. Others
  are refused, and so are references to items, images, files and sound.
- The assistant's items that follow each other (reasoning, a message, calls) are one turn of the prompt.
- Tools are functions. Tools that OpenAI's servers run, and `custom` tools, are refused.
- `instructions` count for one request: with `previous_response_id` those of the earlier one do not.
- `include` accepts `reasoning.encrypted_content`, which clients send that keep their conversations
  themselves. Nothing is encrypted: `reasoning` items hold their text, and clients send it back.
- `reasoning.summary` accepts `auto`, though no summaries are made.
- `store` is `true` unless the request says otherwise.

## Fields with an effect
";

    const PLACES: [Place; 12] = [
        ("", &BODY, ResponsesFields::FIELDS),
        ("input[].", &[], RawItem::FIELDS),
        ("input[] (message).", &MESSAGE, &["role", "content"]),
        (
            "input[] (function_call, function_call_output).",
            &CALL,
            &["call_id", "name", "arguments", "output"],
        ),
        ("input[] (reasoning).", &REASONING_ITEM, &["content"]),
        ("input[].content[].", &PART, RawPart::FIELDS),
        ("tools[].", &TOOL, RawTool::FIELDS),
        ("tool_choice.", &[], RawNamedTool::FIELDS),
        ("text.", &TEXT, RawText::FIELDS),
        ("text.format.", &[], RawFormat::FIELDS),
        ("reasoning.", &REASONING, RawReasoning::FIELDS),
        ("stream_options.", &[], RawStreamOptions::FIELDS),
    ];

    #[test]
    fn the_fields_of_the_docs_are_fresh() {
        let page = page(ABOUT, "POST /v1/responses", &PLACES);
        expect_file!["../../../../../docs/responses-fields.md"].assert_eq(&page);
    }

    #[test]
    fn no_field_is_listed_twice_or_both_listed_and_acted_on() {
        check_listed_once(&PLACES);
    }
}
