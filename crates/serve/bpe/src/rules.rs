//! What a `tokenizer.json` does to a text before the merges.
//!
//! Only what is known to the last option counts: a rule that merely looks like a known one may
//! give other tokens, and then the general tokenizer has to do the work. What was not understood
//! is named, so that a log says why a model is slow.

use serde::Deserialize;
use serde_json::Value;

use crate::Unsupported;
use crate::file::{AddedToken, File};
use crate::split::Step;

/// The character that stands for a space in SentencePiece's vocabularies.
pub(crate) const SPACE_MARK: char = '▁';

/// How a text is prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// A vocabulary of bytes: text is split by patterns.
    Bytes { nfc: bool, steps: Vec<Step> },
    /// A vocabulary of characters in which spaces are marked; text is not split.
    Characters {
        lead: Lead,
        /// Whether the normalizer marks them, before added tokens are looked for, or the
        /// pre-tokenizer after it.
        marks_early: bool,
    },
}

/// Where a text of marked spaces gets one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    Never,
    /// Before every part of a text between added tokens.
    EveryPart,
    /// Before every part that does not start with one.
    EveryBarePart,
    /// Before such a part only where it starts the text.
    BareStart,
}

#[derive(Debug, Deserialize)]
struct Normalizer {
    r#type: String,
    #[serde(default)]
    normalizers: Vec<Value>,
    prepend: Option<String>,
    pattern: Option<Pattern>,
    content: Option<String>,
}

#[derive(Debug, Deserialize)]
struct PreTokenizer {
    r#type: String,
    #[serde(default)]
    pretokenizers: Vec<Value>,
    pattern: Option<Pattern>,
    behavior: Option<String>,
    invert: Option<bool>,
    add_prefix_space: Option<bool>,
    use_regex: Option<bool>,
    individual_digits: Option<bool>,
    replacement: Option<String>,
    prepend_scheme: Option<String>,
    split: Option<bool>,
}

#[derive(Debug, Deserialize)]
enum Pattern {
    String(String),
    Regex(String),
}

impl Rules {
    pub(crate) fn of(file: &File<'_>) -> Result<Self, Unsupported> {
        check_model(file)?;
        for token in &file.added_tokens {
            check_added(token)?;
        }
        let normalizers = flatten(file.normalizer.as_ref(), |step: &Normalizer| {
            (step.r#type == "Sequence").then_some(&step.normalizers)
        })?;
        let splits = flatten(file.pre_tokenizer.as_ref(), |step: &PreTokenizer| {
            (step.r#type == "Sequence").then_some(&step.pretokenizers)
        })?;
        match splits.split_last() {
            Some((bytes, splits)) if bytes.r#type == "ByteLevel" => {
                Self::of_bytes(&normalizers, splits, bytes)
            }
            _ => Self::of_characters(&normalizers, &splits),
        }
    }

    fn of_bytes(
        normalizers: &[Normalizer],
        splits: &[PreTokenizer],
        bytes: &PreTokenizer,
    ) -> Result<Self, Unsupported> {
        let nfc = match normalizers {
            [] => false,
            [only] if only.r#type == "NFC" => true,
            [other, ..] => return Err(Unsupported::new("normalizer", &other.r#type)),
        };
        // The library's default is to add a space.
        if bytes.add_prefix_space != Some(false) {
            return Err(Unsupported::new("option", "add_prefix_space"));
        }
        let mut steps = Vec::new();
        for split in splits {
            steps.push(split.step()?);
        }
        if bytes.use_regex != Some(false) {
            steps.push(Step::Gpt2);
        }
        if steps.is_empty() {
            return Err(Unsupported::new("pre-tokenizer", "ByteLevel alone"));
        }
        Ok(Self::Bytes { nfc, steps })
    }

    fn of_characters(
        normalizers: &[Normalizer],
        splits: &[PreTokenizer],
    ) -> Result<Self, Unsupported> {
        let lead = match (normalizers, splits) {
            ([], [only]) if only.r#type == "Metaspace" => return only.marks_spaces(),
            ([replace], _) if replace.marks_spaces() => Lead::Never,
            ([prepend, replace], _) if prepend.leads() && replace.marks_spaces() => Lead::EveryPart,
            ([other, ..], _) => return Err(Unsupported::new("normalizer", &other.r#type)),
            ([], [other, ..]) => return Err(Unsupported::new("pre-tokenizer", &other.r#type)),
            ([], []) => return Err(Unsupported::new("pre-tokenizer", "none")),
        };
        // No space is left to split at.
        match splits.iter().find(|split| !split.splits_at_spaces()) {
            None => Ok(Self::Characters {
                lead,
                marks_early: true,
            }),
            Some(other) => Err(Unsupported::new("pre-tokenizer", &other.r#type)),
        }
    }
}

fn check_model(file: &File<'_>) -> Result<(), Unsupported> {
    let model = &file.model;
    if let Some(other) = model.r#type.as_deref().filter(|kind| *kind != "BPE") {
        return Err(Unsupported::new("model", other));
    }
    if model.dropout.is_some_and(|probability| probability != 0.0) {
        return Err(Unsupported::new("option", "dropout"));
    }
    let set = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    if set(&model.continuing_subword_prefix) {
        return Err(Unsupported::new("option", "continuing_subword_prefix"));
    }
    if set(&model.end_of_word_suffix) {
        return Err(Unsupported::new("option", "end_of_word_suffix"));
    }
    Ok(())
}

fn check_added(token: &AddedToken) -> Result<(), Unsupported> {
    if token.single_word {
        return Err(Unsupported::new(
            "added token of single words",
            &token.content,
        ));
    }
    // Normalisation may have changed what is a space.
    if token.normalized && (token.lstrip || token.rstrip) {
        return Err(Unsupported::new(
            "normalized and stripping token",
            &token.content,
        ));
    }
    Ok(())
}

/// The steps of a sequence and of sequences in it.
fn flatten<T: for<'de> Deserialize<'de>>(
    value: Option<&Value>,
    steps: fn(&T) -> Option<&Vec<Value>>,
) -> Result<Vec<T>, Unsupported> {
    let Some(value) = value else {
        return Ok(Vec::new());
    };
    let unread = |error: serde_json::Error| Unsupported::new("rule", &error.to_string());
    let step = T::deserialize(value).map_err(unread)?;
    let Some(inner) = steps(&step) else {
        return Ok(vec![step]);
    };
    let mut all = Vec::new();
    for value in inner {
        all.extend(flatten(Some(value), steps)?);
    }
    Ok(all)
}

impl Normalizer {
    fn leads(&self) -> bool {
        self.r#type == "Prepend" && is_mark(self.prepend.as_deref())
    }

    fn marks_spaces(&self) -> bool {
        let spaces = matches!(&self.pattern, Some(Pattern::String(text)) if text == " ");
        self.r#type == "Replace" && spaces && is_mark(self.content.as_deref())
    }
}

impl PreTokenizer {
    fn step(&self) -> Result<Step, Unsupported> {
        match (self.r#type.as_str(), &self.pattern) {
            ("Digits", _) if self.individual_digits == Some(true) => Ok(Step::Digits),
            ("Split", Some(Pattern::Regex(pattern))) => {
                let unknown = || Unsupported::new("split pattern", pattern);
                let (step, matches_all) = Step::of_pattern(pattern).ok_or_else(unknown)?;
                match (self.behavior.as_deref(), self.invert) {
                    (Some("Isolated"), Some(false)) => Ok(step),
                    // To remove what does not match is to isolate what does, if all does.
                    (Some("Removed"), Some(true)) if matches_all => Ok(step),
                    (other, _) => Err(Unsupported::new("split", other.unwrap_or("none"))),
                }
            }
            ("Split", _) => Err(Unsupported::new("split pattern", "a text")),
            (other, _) => Err(Unsupported::new("pre-tokenizer", other)),
        }
    }

    fn splits_at_spaces(&self) -> bool {
        let spaces = matches!(&self.pattern, Some(Pattern::String(text)) if text == " ");
        self.r#type == "Split" && spaces && self.invert == Some(false)
    }

    fn marks_spaces(&self) -> Result<Rules, Unsupported> {
        if !is_mark(self.replacement.as_deref()) || self.split != Some(false) {
            return Err(Unsupported::new("pre-tokenizer", "Metaspace that splits"));
        }
        let lead = match self.prepend_scheme.as_deref() {
            Some("never") => Lead::Never,
            Some("first") => Lead::BareStart,
            Some("always") | None => Lead::EveryBarePart,
            Some(other) => return Err(Unsupported::new("prepend scheme", other)),
        };
        Ok(Rules::Characters {
            lead,
            marks_early: false,
        })
    }
}

fn is_mark(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.chars().eq([SPACE_MARK]))
}
