//! Tokens to text, one at a time.
//!
//! A token may end inside a character; its bytes wait until the character is whole. Bytes
//! that can never become one turn into U+FFFD, just as `String::from_utf8_lossy` would have
//! it for the whole answer: a property test says so. Special tokens are skipped.
//!
//! Vocabularies that are not byte-level have no bytes per token: a token's text depends on
//! its neighbours (SentencePiece drops the first space). For them the text of a short window
//! is decoded with and without the new token, and the difference is what it adds.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use contract::TokenId;

use crate::tokenizer::Tokenizer;

/// Longest run of tokens that is decoded again for a character that does not get whole.
const WINDOW_TOKENS: usize = 64;

/// Special tokens whose names are part of the text.
pub(crate) type Kept = Arc<[(TokenId, String)]>;

/// The text of one answer, as far as it is known.
#[derive(Debug)]
pub struct Detokenizer {
    tokenizer: Arc<Tokenizer>,
    kept: Kept,
    /// Bytes of a character that is not whole yet.
    pending: Vec<u8>,
    window: Window,
}

/// The tokens that are decoded together, for vocabularies without bytes per token.
#[derive(Debug, Default)]
struct Window {
    tokens: Vec<TokenId>,
    /// How many of them have been handed out.
    told: usize,
}

impl Detokenizer {
    pub fn new(tokenizer: Arc<Tokenizer>) -> Self {
        Self::keeping(tokenizer, Arc::default())
    }

    pub(crate) fn keeping(tokenizer: Arc<Tokenizer>, kept: Kept) -> Self {
        Self {
            tokenizer,
            kept,
            pending: Vec::new(),
            window: Window::default(),
        }
    }

    /// Appends what `token` adds to the text: whole characters only.
    pub fn push(&mut self, token: TokenId, out: &mut String) {
        if self.tokenizer.is_special(token) {
            if let Some(place) = self.kept.iter().position(|(kept, _)| *kept == token) {
                self.finish(out);
                out.push_str(&self.kept[place].1);
            }
            return;
        }
        let Some(bytes) = self.tokenizer.token_bytes(token) else {
            self.window.push(token, &self.tokenizer, out);
            return;
        };
        if self.pending.is_empty()
            && let Ok(text) = std::str::from_utf8(bytes)
        {
            out.push_str(text);
            return;
        }
        self.pending.extend_from_slice(bytes);
        let used = push_whole_characters(&self.pending, out);
        self.pending.drain(..used);
    }

    /// Appends what is left when no more tokens come.
    pub fn finish(&mut self, out: &mut String) {
        // Never more than the start of one character.
        if !self.pending.is_empty() {
            self.pending.clear();
            out.push(char::REPLACEMENT_CHARACTER);
        }
        self.window.finish(&self.tokenizer, out);
    }
}

/// Appends all characters of `bytes` that are whole or hopeless; returns how many bytes
/// those were.
fn push_whole_characters(bytes: &[u8], out: &mut String) -> usize {
    let mut used = 0;
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        used += chunk.valid().len();
        let invalid = chunk.invalid();
        let last = used + invalid.len() == bytes.len();
        if last && may_continue(invalid) {
            break;
        }
        if !invalid.is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
            used += invalid.len();
        }
    }
    used
}

/// Whether more bytes could make a character of these.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

impl Window {
    fn push(&mut self, token: TokenId, tokenizer: &Tokenizer, out: &mut String) {
        self.tokens.push(token);
        let before = tokenizer.decode(&self.tokens[..self.told]);
        let after = tokenizer.decode(&self.tokens);
        let hopeless = self.tokens.len() - self.told > WINDOW_TOKENS;
        if after.ends_with(char::REPLACEMENT_CHARACTER) && !hopeless {
            return;
        }
        out.push_str(after.get(before.len()..).unwrap_or_default());
        // The text just returned is the context of what follows.
        self.tokens.drain(..self.told);
        self.told = self.tokens.len();
    }

    fn finish(&mut self, tokenizer: &Tokenizer, out: &mut String) {
        if self.told < self.tokens.len() {
            let before = tokenizer.decode(&self.tokens[..self.told]);
            let after = tokenizer.decode(&self.tokens);
            out.push_str(after.get(before.len()..).unwrap_or_default());
        }
        self.tokens.clear();
        self.told = 0;
    }
}
