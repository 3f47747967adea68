//! Text to tokens, paying only for what is new.
//!
//! A conversation comes back with every turn, a little longer each time. Its text is parted
//! at the special tokens, ordinary text further into [pieces](crate::piece), and each
//! piece's tokens come out of the [cache](crate::piece_cache) when they are there. The
//! result is what the tokenizer alone gives, token for token: only the time differs (an
//! article of 3,700 tokens: 0.3 ms the first time, 6 µs afterwards).

#[cfg(test)]
mod tests;

use std::sync::Arc;

use contract::TokenId;

use crate::error::PrepareError;
use crate::guard::Guard;
use crate::piece_cache::{CacheStats, PieceCache};
use crate::tokenizer::{Segment, Specials, Tokenizer};

/// Pieces are at least this long. Shorter ones share more between texts but cost more to
/// look up: at 512 bytes a warm 16 kB message is some 32 lookups.
pub const MIN_PIECE_BYTES: usize = 512;

/// Bytes of text per token, at most: o200k's longest token is this long. A longer text is not
/// looked at.
const MOST_BYTES_PER_TOKEN: usize = 128;
/// The same for text without a place to cut it, whose cost grows faster than its length: in no
/// language do so many bytes make a token.
const MOST_UNCUT_BYTES_PER_TOKEN: usize = 16;
/// Shorter texts are cheap whatever they are, and counted exactly.
const CHEAP_BYTES: usize = 64 << 10;
const CHEAP_TOKENS: usize = 4096;
/// Oniguruma gives up on a run of space of some 10 MB.
const MOST_UNCUT_BYTES: usize = 8 << 20;

/// How much of a prompt is tokenised before it is clear that it does not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Most tokens of prompt and answer together.
    pub(crate) limit: u32,
    /// The request's field.
    pub(crate) param: &'static str,
}

impl Bounds {
    fn exceeded(self) -> PrepareError {
        let Self { limit, param } = self;
        PrepareError::ContextFarTooLong { limit, param }
    }

    /// Whether a text of so many bytes can fit at all.
    pub(crate) fn check_bytes(self, bytes: usize) -> Result<(), PrepareError> {
        let most = self.limit as usize * MOST_BYTES_PER_TOKEN;
        match bytes <= most.max(CHEAP_BYTES) {
            true => Ok(()),
            false => Err(self.exceeded()),
        }
    }

    fn check_uncut(self, bytes: usize) -> Result<(), PrepareError> {
        let most = self.limit as usize * MOST_UNCUT_BYTES_PER_TOKEN;
        match bytes <= most.clamp(CHEAP_BYTES, MOST_UNCUT_BYTES) {
            true => Ok(()),
            false => Err(self.exceeded()),
        }
    }

    /// Counts up to twice what fits, so that the error can say by how much a prompt is too long.
    fn check_counted(self, tokens: usize) -> Result<(), PrepareError> {
        self.check_tokens(tokens.saturating_sub(CHEAP_TOKENS) / 2)
    }

    /// Whether what takes at least so many tokens can fit.
    pub(crate) fn check_tokens(self, at_least: usize) -> Result<(), PrepareError> {
        match at_least <= self.limit as usize {
            true => Ok(()),
            false => Err(self.exceeded()),
        }
    }
}

/// A tokenizer with a memory.
#[derive(Debug)]
pub struct Encoder {
    tokenizer: Arc<Tokenizer>,
    cache: PieceCache,
    min_piece_bytes: usize,
}

impl Encoder {
    pub fn new(tokenizer: Arc<Tokenizer>, cache: PieceCache, min_piece_bytes: usize) -> Self {
        Self {
            tokenizer,
            cache,
            min_piece_bytes,
        }
    }

    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    pub fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Appends the tokens of `text`.
    pub fn encode(
        &self,
        text: &str,
        specials: Specials,
        out: &mut Vec<TokenId>,
    ) -> Result<(), PrepareError> {
        // English has a little over four bytes per token.
        out.reserve(text.len() / 4);
        for segment in self.tokenizer.segments(text, specials) {
            match segment {
                Segment::Special(id) => out.push(id),
                Segment::Text(text) => self.encode_segment(text, specials, None, out)?,
            }
        }
        Ok(())
    }

    /// Appends the tokens of a prompt with the names of special tokens in it. Gives up when it
    /// is clear that it does not fit. With a `guard`, `text` is what was rendered under it.
    pub(crate) fn encode_prompt(
        &self,
        text: &str,
        guard: Option<&Guard<'_>>,
        bounds: Bounds,
        out: &mut Vec<TokenId>,
    ) -> Result<(), PrepareError> {
        bounds.check_bytes(text.len())?;
        out.reserve((text.len() / 4).min(bounds.limit as usize));
        let Some(guard) = guard else {
            for segment in self.tokenizer.segments(text, Specials::Parse) {
                match segment {
                    Segment::Special(id) => out.push(id),
                    Segment::Text(text) => {
                        self.encode_segment(text, Specials::Parse, Some(bounds), out)?;
                    }
                }
            }
            return Ok(());
        };
        for segment in self.tokenizer.guarded_segments(text) {
            match segment {
                Segment::Special(id) => out.push(id),
                Segment::Text(text) => {
                    let text = guard.restore(text);
                    self.encode_segment(&text, Specials::Plain, Some(bounds), out)?;
                }
            }
        }
        Ok(())
    }

    fn encode_segment(
        &self,
        text: &str,
        specials: Specials,
        bounds: Option<Bounds>,
        out: &mut Vec<TokenId>,
    ) -> Result<(), PrepareError> {
        let check = |piece: &str, tokens: usize| match bounds {
            None => Ok(()),
            Some(bounds) => {
                bounds.check_uncut(piece.len())?;
                bounds.check_counted(tokens)
            }
        };
        let Some(pattern) = self.tokenizer.split_pattern() else {
            check(text, out.len())?;
            return self.tokenizer.encode_segment(text, specials, out);
        };
        for piece in pattern.pieces(text, self.min_piece_bytes) {
            check(piece, out.len())?;
            let tokens = self.cache.get_or_encode(piece, |piece| {
                let mut tokens = Vec::with_capacity(piece.len() / 3);
                self.tokenizer
                    .encode_segment(piece, specials, &mut tokens)?;
                Ok(tokens.into())
            })?;
            out.extend_from_slice(&tokens);
        }
        Ok(())
    }
}
