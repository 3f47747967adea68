//! `tokenizer.json`, as far as encoding needs it.
//!
//! Texts of the vocabulary are borrowed from the file: there are hundreds of thousands, and a
//! copy of each would take longer than all the rest of loading. What is of any shape is kept as
//! a value, for [`crate::rules`] to judge.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use contract::TokenId;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

#[derive(Debug, serde::Deserialize)]
pub(crate) struct File<'a> {
    #[serde(default)]
    pub(crate) added_tokens: Vec<AddedToken>,
    pub(crate) normalizer: Option<Value>,
    pub(crate) pre_tokenizer: Option<Value>,
    #[serde(borrow)]
    pub(crate) model: Model<'a>,
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct AddedToken {
    pub(crate) id: TokenId,
    pub(crate) content: String,
    #[serde(default)]
    pub(crate) single_word: bool,
    #[serde(default)]
    pub(crate) lstrip: bool,
    #[serde(default)]
    pub(crate) rstrip: bool,
    #[serde(default)]
    pub(crate) normalized: bool,
    #[serde(default)]
    pub(crate) special: bool,
}

#[derive(Debug, serde::Deserialize)]
pub(crate) struct Model<'a> {
    pub(crate) r#type: Option<String>,
    pub(crate) dropout: Option<f32>,
    pub(crate) unk_token: Option<String>,
    pub(crate) continuing_subword_prefix: Option<String>,
    pub(crate) end_of_word_suffix: Option<String>,
    pub(crate) byte_fallback: Option<bool>,
    pub(crate) ignore_merges: Option<bool>,
    #[serde(borrow)]
    pub(crate) vocab: Vocabulary<'a>,
    #[serde(borrow, default)]
    pub(crate) merges: Vec<MergeOf<'a>>,
}

/// Tokens in the order of the file.
#[derive(Debug)]
pub(crate) struct Vocabulary<'a>(pub(crate) Vec<(Cow<'a, str>, TokenId)>);

/// Two tokens, as a list or, in older files, with a space between them.
#[derive(Debug)]
pub(crate) enum MergeOf<'a> {
    Two(Cow<'a, str>, Cow<'a, str>),
    Spaced(Cow<'a, str>),
}

impl MergeOf<'_> {
    /// The two; `None` if the space is not in one place.
    pub(crate) fn tokens(&self) -> Option<(&str, &str)> {
        match self {
            Self::Two(left, right) => Some((left, right)),
            Self::Spaced(both) => {
                let two = both.split_once(' ')?;
                (!two.1.contains(' ')).then_some(two)
            }
        }
    }

    /// Older files begin with the version of their format, which is no merge.
    pub(crate) fn is_version(&self) -> bool {
        matches!(self, Self::Spaced(line) if line.starts_with("#version"))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Vocabulary<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Tokens<'a> {
            type Value = Vocabulary<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens with their ids")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut tokens = Vec::new();
                while let Some((text, id)) = map.next_entry::<Text<'a>, TokenId>()? {
                    tokens.push((text.0, id));
                }
                Ok(Vocabulary(tokens))
            }
        }
        deserializer.deserialize_map(Tokens(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for MergeOf<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Either<'a> {
            type Value = MergeOf<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("two tokens")
            }

            fn visit_borrowed_str<E: Error>(self, both: &'de str) -> Result<Self::Value, E> {
                Ok(MergeOf::Spaced(Cow::Borrowed(both)))
            }

            fn visit_str<E: Error>(self, both: &str) -> Result<Self::Value, E> {
                Ok(MergeOf::Spaced(Cow::Owned(both.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut two: A) -> Result<Self::Value, A::Error> {
                let mut next = || two.next_element::<Text<'a>>();
                let (Some(left), Some(right), None) = (next()?, next()?, next()?) else {
                    return Err(A::Error::custom("a merge is of two tokens"));
                };
                Ok(MergeOf::Two(left.0, right.0))
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

/// A string that is borrowed unless it has escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow<'a>(PhantomData<&'a ()>);
        impl<'de: 'a, 'a> Visitor<'de> for Borrow<'a> {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Borrow(PhantomData))
    }
}
