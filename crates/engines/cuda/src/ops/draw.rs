//! Drawing tokens: what a device is given for each row of logits.
//!
//! A row has the numbers of the sampler's own draw, and tokens that are forbidden. It is words of a step's
//! upload, which the kernel reads as its structure of the same fields. What needs more than that (penalties,
//! grammars, log-probabilities) is drawn on the host.

use contract::TokenId;
use sampling::Pick;

use super::PADDING;

/// Most tokens that can be forbidden in a row: models have fewer that end an answer.
pub const MOST_FORBIDDEN: usize = 8;

/// A token of each row of logits, as [`DrawRow`] says (u32). [`PADDING`] for a row of which nothing is
/// drawn, or whose logits have a number that is none or an infinite one as the largest.
///
/// The weights' sums may be rounded in another way than the host's: where the place of a draw is within
/// that of the border between two tokens, the other one may come.
#[derive(Debug)]
pub struct Draw<'a, B> {
    pub rows: usize,
    pub vocabulary: usize,
    /// F32. Those of forbidden tokens are overwritten.
    pub logits: &'a B,
    /// [`DrawRow::WORDS`] for each row.
    pub draws: &'a B,
    pub tokens: &'a B,
}

/// How a row is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawRow {
    pick: Option<Pick>,
    /// Those that are not used are [`PADDING`], which no vocabulary has.
    forbidden: [TokenId; MOST_FORBIDDEN],
}

impl DrawRow {
    /// Of a row in an upload.
    pub const WORDS: usize = 4 * 2 + 2 + MOST_FORBIDDEN;

    /// Of a row of which nothing is drawn.
    pub const NOTHING: Self = Self {
        pick: None,
        forbidden: [PADDING; MOST_FORBIDDEN],
    };

    /// Nothing where too many tokens are forbidden.
    pub fn new(pick: Pick, tokens: &[TokenId]) -> Option<Self> {
        let mut forbidden = [PADDING; MOST_FORBIDDEN];
        forbidden.get_mut(..tokens.len())?.copy_from_slice(tokens);
        Some(Self {
            pick: Some(pick),
            forbidden,
        })
    }

    pub fn pick(&self) -> Option<Pick> {
        self.pick
    }

    pub fn forbidden(&self) -> &[TokenId] {
        &self.forbidden
    }

    /// Appends what is uploaded: share, scale, `min_p`, `top_p`, `top_k`, whether it is drawn, forbidden
    /// tokens.
    pub fn encode(&self, words: &mut Vec<u32>) {
        let (numbers, top_k) = match self.pick {
            Some(pick) => ([pick.share, pick.scale, pick.min_p, pick.top_p], pick.top_k),
            None => ([0.0; 4], 0),
        };
        for number in numbers {
            let bits = number.to_bits();
            words.extend([bits as u32, (bits >> 32) as u32]);
        }
        words.extend([top_k, u32::from(self.pick.is_some())]);
        words.extend(self.forbidden);
    }

    /// What [`Self::encode`] made, which has as many words.
    pub(super) fn decode(words: &[u32]) -> Self {
        let number = |index: usize| {
            let (low, high) = (words[2 * index], words[2 * index + 1]);
            f64::from_bits(u64::from(high) << 32 | u64::from(low))
        };
        let pick = Pick {
            share: number(0),
            scale: number(1),
            min_p: number(2),
            top_p: number(3),
            top_k: words[8],
        };
        let mut forbidden = [PADDING; MOST_FORBIDDEN];
        forbidden.copy_from_slice(&words[10..]);
        Self {
            pick: match words[9] {
                0 => None,
                1 => Some(pick),
                other => panic!("{other} does not say whether a row is drawn"),
            },
            forbidden,
        }
    }
}
