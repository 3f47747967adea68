//! The bytes behind the tokens of a byte-level vocabulary.
//!
//! Such vocabularies write each byte as a visible character: visible Latin-1 bytes as
//! themselves, the other 68 as the characters from U+0100 on, in order.

use contract::TokenId;

use super::rules::AddedToken;

/// Bytes by token, end to end in one allocation.
#[derive(Debug)]
pub(super) struct TokenTable {
    bytes: Vec<u8>,
    /// Where each token starts, and at last where the last one ends.
    starts: Vec<u32>,
}

impl TokenTable {
    pub(super) fn new(
        vocabulary: usize,
        added: &[AddedToken],
        text_of: impl Fn(TokenId) -> Option<String>,
    ) -> Self {
        let mut added: Vec<_> = added
            .iter()
            .map(|token| (token.id, &token.content))
            .collect();
        added.sort_unstable();
        let mut table = Self {
            bytes: Vec::new(),
            starts: vec![0],
        };
        for id in 0..vocabulary {
            let id = TokenId::try_from(id).expect("ids are u32");
            if let Ok(at) = added.binary_search_by_key(&id, |(id, _)| *id) {
                table.bytes.extend_from_slice(added[at].1.as_bytes());
            } else if let Some(text) = text_of(id) {
                table.push_token(&text);
            }
            table
                .starts
                .push(u32::try_from(table.bytes.len()).expect("vocabularies are small"));
        }
        table
    }

    /// Empty for an id that has no text.
    pub(super) fn bytes(&self, id: TokenId) -> &[u8] {
        match self.starts.get(id as usize..) {
            Some([start, end, ..]) => &self.bytes[*start as usize..*end as usize],
            Some(_) | None => &[],
        }
    }

    fn push_token(&mut self, text: &str) {
        let before = self.bytes.len();
        for character in text.chars() {
            match byte_of(character) {
                Some(byte) => self.bytes.push(byte),
                None => {
                    // Not in the alphabet: then the token is text as it stands.
                    self.bytes.truncate(before);
                    self.bytes.extend_from_slice(text.as_bytes());
                    return;
                }
            }
        }
    }
}

/// Whether a byte is written as the Latin-1 character of the same number.
const fn is_visible(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// The byte that a character of the alphabet stands for.
fn byte_of(character: char) -> Option<u8> {
    let code = u32::from(character);
    if let Ok(byte) = u8::try_from(code) {
        return is_visible(byte).then_some(byte);
    }
    let rank = usize::try_from(code.checked_sub(256)?).ok()?;
    (0..=u8::MAX).filter(|&byte| !is_visible(byte)).nth(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_that_of_the_library() {
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        assert_eq!(alphabet.len(), 256);
        let mut bytes: Vec<u8> = alphabet
            .into_iter()
            .map(|character| byte_of(character).unwrap())
            .collect();
        bytes.sort_unstable();
        assert!(bytes.into_iter().eq(0..=u8::MAX));
        // The best-known members.
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
        assert_eq!(byte_of('é'), Some(0xe9));
        assert_eq!(byte_of('世'), None);
    }
}
