//! The bytes behind the tokens of a byte-level vocabulary.

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
        // With characters that are not in the alphabet, the token is text as it stands.
        if !bpe::push_bytes(text, &mut self.bytes) {
            self.bytes.extend_from_slice(text.as_bytes());
        }
    }
}
