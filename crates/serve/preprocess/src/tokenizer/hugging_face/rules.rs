//! What `tokenizer.json` says about how a text may be cut.
//!
//! Only steps that [`bpe`] knows count: a pattern that merely looks alike may still join what
//! ours says is apart, and then a cut would change tokens.

use bpe::Step;
use contract::TokenId;
use serde::Deserialize;

use crate::piece::SplitPattern;

/// The parts of the file that decide.
#[derive(Debug, Deserialize)]
pub(super) struct Rules {
    #[serde(default)]
    pub(super) added_tokens: Vec<AddedToken>,
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

impl Rules {
    pub(super) fn is_byte_level(&self) -> bool {
        self.decoder
            .as_ref()
            .is_some_and(|decoder| decoder.r#type == "ByteLevel")
    }

    /// The pattern that these steps come to, if texts may be parted at added tokens and cut
    /// between them.
    pub(super) fn split_pattern(&self, steps: &[Step]) -> Option<SplitPattern> {
        let pattern = match steps {
            [Step::Lettered { .. } | Step::Cased { .. }]
            | [Step::Numbers { .. }, Step::Chinese, Step::DeepSeek] => {
                SplitPattern::GroupsLineBreaks
            }
            [Step::Gpt2] | [Step::Digits, Step::Gpt2] => SplitPattern::Gpt2,
            _ => return None,
        };
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
