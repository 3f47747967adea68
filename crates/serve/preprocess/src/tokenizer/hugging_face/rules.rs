//! What `tokenizer.json` says about how a text is split.
//!
//! Only exact matches with known rules count: a pattern that merely looks alike may still
//! join what ours says is apart, and then a cut would change tokens.

use contract::TokenId;
use serde::Deserialize;

use crate::piece::SplitPattern;

/// The patterns that group white space with the line breaks at its end.
pub(super) const GROUPING_PATTERNS: [&str; 3] = [
    // Llama 3 and cl100k.
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    // Qwen 2.
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    // o200k.
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
pub(super) const GPT2_PATTERN: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The parts of the file that decide.
#[derive(Debug, Deserialize)]
pub(super) struct Rules {
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
    normalizer: Option<Kind>,
    /// Of any shape: one that we cannot read is one that we do not know.
    pre_tokenizer: Option<serde_json::Value>,
    decoder: Option<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    r#type: String,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct AddedToken {
    pub(super) id: TokenId,
    pub(super) content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default)]
    pub(super) normalized: bool,
    #[serde(default)]
    pub(super) special: bool,
}

/// A pre-tokenizer.
#[derive(Debug, Deserialize)]
struct Step {
    r#type: String,
    /// The steps of a sequence.
    #[serde(default)]
    pretokenizers: Vec<Step>,
    pattern: Option<SplitAt>,
    behavior: Option<String>,
    invert: Option<bool>,
    add_prefix_space: Option<bool>,
    use_regex: Option<bool>,
}

/// What a `Split` splits at: a regular expression, or a plain string that we never know.
#[derive(Debug, Deserialize)]
struct SplitAt {
    #[serde(rename = "Regex")]
    regex: Option<String>,
}

impl Rules {
    pub(super) fn is_byte_level(&self) -> bool {
        self.decoder
            .as_ref()
            .is_some_and(|decoder| decoder.r#type == "ByteLevel")
    }

    /// The pattern, if all the rules are known and texts may be parted at added tokens and
    /// cut between them.
    pub(super) fn split_pattern(&self) -> Option<SplitPattern> {
        let normalizer = self.normalizer.as_ref().map(|step| step.r#type.as_str());
        if !matches!(normalizer, None | Some("NFC")) {
            return None;
        }
        let step = Step::deserialize(self.pre_tokenizer.as_ref()?).ok()?;
        let pattern = step.split_pattern()?;
        let harmless = self
            .added_tokens
            .iter()
            .all(|token| token.is_harmless(pattern));
        harmless.then_some(pattern)
    }
}

impl AddedToken {
    /// Whether the token is found in the parts of a text as it is in the whole: it takes no
    /// neighbouring space, does not ask what is around it, and no cut can go through it.
    /// A special token must also match before normalisation, where we look for it.
    fn is_harmless(&self, pattern: SplitPattern) -> bool {
        let bytes = self.content.as_bytes();
        let alone = !self.single_word && !self.lstrip && !self.rstrip;
        let found = !(self.special && self.normalized);
        alone && found && !(1..bytes.len()).any(|at| pattern.may_cut(bytes, at))
    }
}

impl Step {
    fn split_pattern(&self) -> Option<SplitPattern> {
        match (self.r#type.as_str(), &*self.pretokenizers) {
            ("ByteLevel", []) if self.use_regex != Some(false) => {
                self.is_pure_byte_level().then_some(SplitPattern::Gpt2)
            }
            ("Sequence", [split, bytes]) if bytes.is_pure_byte_level() => {
                (bytes.use_regex == Some(false)).then(|| split.known_split())?
            }
            _ => None,
        }
    }

    /// Maps bytes to characters and adds nothing.
    fn is_pure_byte_level(&self) -> bool {
        // The library's default is to add a space.
        self.r#type == "ByteLevel" && self.add_prefix_space == Some(false)
    }

    fn known_split(&self) -> Option<SplitPattern> {
        let isolates = self.r#type == "Split"
            && self.behavior.as_deref() == Some("Isolated")
            && self.invert != Some(true);
        let regex = self
            .pattern
            .as_ref()?
            .regex
            .as_deref()
            .filter(|_| isolates)?;
        if GROUPING_PATTERNS.contains(&regex) {
            return Some(SplitPattern::GroupsLineBreaks);
        }
        (regex == GPT2_PATTERN).then_some(SplitPattern::Gpt2)
    }
}
