//! Finds special tokens in a text.
//!
//! The leftmost match wins, and of those the longest, as in Hugging Face's tokenizers. The
//! search jumps from one possible first byte to the next, which in practice is `<`, so a
//! text without special tokens costs one pass of `memchr`.

use contract::TokenId;

use super::Segment;

#[derive(Debug)]
pub(crate) struct SpecialTokens {
    /// Longest first, so that the first that fits is the one.
    tokens: Vec<(TokenId, String)>,
    first_bytes: Vec<u8>,
}

impl SpecialTokens {
    pub(super) fn new(mut tokens: Vec<(TokenId, String)>) -> Self {
        tokens.retain(|(_, text)| !text.is_empty());
        tokens.sort_by(|(_, left), (_, right)| {
            right.len().cmp(&left.len()).then_with(|| left.cmp(right))
        });
        let mut first_bytes: Vec<u8> = tokens.iter().map(|(_, text)| text.as_bytes()[0]).collect();
        first_bytes.sort_unstable();
        first_bytes.dedup();
        Self {
            tokens,
            first_bytes,
        }
    }

    /// The first special token: its position, length and id.
    fn find(&self, text: &str) -> Option<(usize, usize, TokenId)> {
        let bytes = text.as_bytes();
        let mut from = 0;
        while let Some(at) = self.candidate(&bytes[from..]) {
            let at = from + at;
            let fits = |(_, token): &&(TokenId, String)| bytes[at..].starts_with(token.as_bytes());
            if let Some((id, token)) = self.tokens.iter().find(fits) {
                return Some((at, token.len(), *id));
            }
            from = at + 1;
        }
        None
    }

    /// The characters that names begin with.
    pub(crate) fn first_characters(&self) -> Vec<char> {
        let firsts = self
            .tokens
            .iter()
            .filter_map(|(_, text)| text.chars().next());
        let mut firsts: Vec<char> = firsts.collect();
        firsts.sort_unstable();
        firsts.dedup();
        firsts
    }

    /// Where in `text` a name begins, even if it does not end before the text does, or before
    /// the space at the text's end.
    pub(crate) fn beginnings<'a>(&'a self, text: &'a str) -> impl Iterator<Item = usize> + 'a {
        let end = text.trim_end().len();
        let mut from = 0;
        std::iter::from_fn(move || {
            let bytes = text.as_bytes();
            while let Some(at) = self.candidate(&bytes[from..]) {
                let at = from + at;
                from = at + 1;
                let rest = &bytes[at..];
                let cut_short = &bytes[at.min(end)..end];
                let begins = |(_, name): &(TokenId, String)| {
                    let name = name.as_bytes();
                    rest.starts_with(name) || (!cut_short.is_empty() && name.starts_with(cut_short))
                };
                if self.tokens.iter().any(begins) {
                    return Some(at);
                }
            }
            None
        })
    }

    fn candidate(&self, bytes: &[u8]) -> Option<usize> {
        match *self.first_bytes {
            [] => None,
            [only] => memchr::memchr(only, bytes),
            [first, second] => memchr::memchr2(first, second, bytes),
            [first, second, third] => memchr::memchr3(first, second, third, bytes),
            _ => bytes
                .iter()
                .position(|byte| self.first_bytes.contains(byte)),
        }
    }
}

/// The parts of a text between special tokens, and those.
#[derive(Debug)]
pub(super) struct Segments<'a> {
    separators: Option<&'a SpecialTokens>,
    rest: &'a str,
    /// A special token that was found behind the text just handed out.
    next: Option<TokenId>,
}

impl<'a> Segments<'a> {
    pub(super) fn new(separators: Option<&'a SpecialTokens>, text: &'a str) -> Self {
        Self {
            separators,
            rest: text,
            next: None,
        }
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        if let Some(id) = self.next.take() {
            return Some(Segment::Special(id));
        }
        if self.rest.is_empty() {
            return None;
        }
        let Some((at, length, id)) = self.separators.and_then(|tokens| tokens.find(self.rest))
        else {
            return Some(Segment::Text(std::mem::take(&mut self.rest)));
        };
        let (text, token) = self.rest.split_at(at);
        self.rest = &token[length..];
        if text.is_empty() {
            return Some(Segment::Special(id));
        }
        self.next = Some(id);
        Some(Segment::Text(text))
    }
}
