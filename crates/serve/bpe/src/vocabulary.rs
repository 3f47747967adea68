//! Words to tokens: a model's tokens and merges.
//!
//! In a vocabulary of characters spaces are marked, and no unmarked one is left when words are
//! looked up. So the mark is kept as a space here: a third of the bytes, and texts that need no
//! rewriting.

use contract::TokenId;

use crate::Unsupported;
use crate::alphabet::push_bytes;
use crate::file::Model;
use crate::joints::Joints;
use crate::merge::{Merge, Merger};
use crate::pairs::Pairs;
use crate::rules::SPACE_MARK;
use crate::words::{Word, Words};

/// Tokens and merges, over bytes or characters.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    words: Words,
    merges: Merges,
    over_bytes: bool,
}

/// What words are merged from, and by.
#[derive(Debug)]
struct Merges {
    pairs: Pairs,
    /// The token of each byte, or [`NO_TOKEN`]: of any byte, in a vocabulary of bytes; of those
    /// that characters without a token are made of, in one of characters.
    bytes: Box<[TokenId; 256]>,
}

const NO_TOKEN: TokenId = TokenId::MAX;

/// The bytes that never occur in UTF-8.
const fn is_impossible(byte: u8) -> bool {
    matches!(byte, 0xc0 | 0xc1 | 0xf5..)
}

impl Vocabulary {
    /// A vocabulary of bytes. With `ignore_merges` every word that is a token is that token.
    pub(crate) fn of_bytes(model: &Model<'_>) -> Result<Self, Unsupported> {
        let ignore_merges = model.ignore_merges == Some(true);
        let mut words = Words::with_capacity(model.vocab.0.len());
        let mut bytes = Vec::new();
        for (text, token) in &model.vocab.0 {
            bytes.clear();
            // A token with other characters is not what a text can become.
            if push_bytes(text, &mut bytes) && !bytes.is_empty() {
                let word = Word {
                    token: *token,
                    is_whole: ignore_merges,
                };
                words.insert(&bytes, word);
            }
        }
        let mut tokens = Box::new([NO_TOKEN; 256]);
        for byte in (0..=u8::MAX).filter(|byte| !is_impossible(*byte)) {
            match words.get(&[byte]) {
                Some(word) => tokens[usize::from(byte)] = word.token,
                // The library leaves such a byte out.
                None if model.unk_token.is_none() && model.byte_fallback != Some(true) => {}
                None => return Err(Unsupported::new("byte without a token", &byte.to_string())),
            }
        }
        let mut pairs = Pairs::with_capacity(model.merges.len());
        for_each_merge(model, |rank, left, right| {
            bytes.clear();
            if !push_bytes(left, &mut bytes) {
                return Ok(());
            }
            let border = bytes.len();
            if !push_bytes(right, &mut bytes) {
                return Ok(());
            }
            insert_merge(&mut pairs, &words, &bytes, border, rank)
        })?;
        let bytes = tokens;
        let mut vocabulary = Self {
            words,
            merges: Merges { pairs, bytes },
            over_bytes: true,
        };
        if !ignore_merges {
            vocabulary.mark_whole();
        }
        Ok(vocabulary)
    }

    /// A vocabulary of characters, and where its merges can happen.
    pub(crate) fn of_characters(model: &Model<'_>) -> Result<(Self, Joints), Unsupported> {
        if model.byte_fallback != Some(true) {
            return Err(Unsupported::new("option", "no byte_fallback"));
        }
        let mut words = Words::with_capacity(model.vocab.0.len());
        let mut bytes = Box::new([NO_TOKEN; 256]);
        for (text, token) in &model.vocab.0 {
            if let Some(byte) = named_byte(text) {
                bytes[usize::from(byte)] = *token;
            }
            if text.contains(' ') || text.is_empty() {
                continue;
            }
            let word = Word {
                token: *token,
                is_whole: false,
            };
            words.insert(text.replace(SPACE_MARK, " ").as_bytes(), word);
        }
        // Its bytes would be those of the mark.
        if words.get(b" ").is_none() {
            return Err(Unsupported::new("character without a token", "the space"));
        }
        // A byte is needed where a character may lack a token.
        let missing = |byte: &u8| {
            let is_character = byte.is_ascii() && words.get(&[*byte]).is_some();
            let needed = !is_impossible(*byte) && !is_character;
            needed && bytes[usize::from(*byte)] == NO_TOKEN
        };
        if let Some(byte) = (0..=u8::MAX).find(missing) {
            return Err(Unsupported::new("byte without a token", &byte.to_string()));
        }
        let mut pairs = Pairs::with_capacity(model.merges.len());
        let mut joints = Joints::new();
        for_each_merge(model, |rank, left, right| {
            let unreachable = |text: &str| text.contains(' ') || text.is_empty();
            if unreachable(left) || unreachable(right) {
                return Ok(());
            }
            // Such tokens come from characters that are not in their names.
            if let Some(byte) = named_byte(left).or(named_byte(right)) {
                return Err(Unsupported::new("merge of a byte", &byte.to_string()));
            }
            let left = left.replace(SPACE_MARK, " ");
            let right = right.replace(SPACE_MARK, " ");
            if let (Some(last), Some(first)) = (left.chars().next_back(), right.chars().next()) {
                joints.insert(last, first);
            }
            let both = [left.as_bytes(), right.as_bytes()].concat();
            insert_merge(&mut pairs, &words, &both, left.len(), rank)
        })?;
        let mut vocabulary = Self {
            words,
            merges: Merges { pairs, bytes },
            over_bytes: false,
        };
        vocabulary.mark_whole();
        Ok((vocabulary, joints))
    }

    /// Finds the tokens whose own bytes merge to them: a word that is one needs no merging.
    fn mark_whole(&mut self) {
        let Self {
            words,
            merges,
            over_bytes,
        } = self;
        let mut merger = Merger::default();
        let mut tokens = Vec::new();
        words.mark_whole(|words, word, token| {
            tokens.clear();
            match *over_bytes {
                true => merges.of_bytes(word, &mut merger, &mut tokens),
                false => {
                    let word = str::from_utf8(word).expect("it was text");
                    merges.of_characters(word, words, &mut merger, &mut tokens);
                }
            }
            *tokens == [token]
        });
    }

    /// Appends the tokens of a word.
    #[inline]
    pub(crate) fn encode(&self, word: &str, merger: &mut Merger, out: &mut Vec<TokenId>) {
        match self.words.get(word.as_bytes()) {
            Some(Word {
                token,
                is_whole: true,
            }) => out.push(token),
            Some(_) | None => self.merge(word, merger, out),
        }
    }

    fn merge(&self, word: &str, merger: &mut Merger, out: &mut Vec<TokenId>) {
        match self.over_bytes {
            true => self.merges.of_bytes(word.as_bytes(), merger, out),
            false => self.merges.of_characters(word, &self.words, merger, out),
        }
    }

    /// The token of exactly this text, whether or not merges lead to it.
    pub(crate) fn token(&self, word: &str) -> Option<TokenId> {
        self.words.get(word.as_bytes()).map(|word| word.token)
    }
}

/// Calls with the rank of each merge and its two tokens. Ranks are places in the list.
fn for_each_merge(
    model: &Model<'_>,
    mut merge: impl FnMut(u32, &str, &str) -> Result<(), Unsupported>,
) -> Result<(), Unsupported> {
    let merges = model.merges.iter().filter(|merge| !merge.is_version());
    for (rank, both) in (0..).zip(merges) {
        let Some((left, right)) = both.tokens() else {
            return Err(Unsupported::new("merge", &rank.to_string()));
        };
        merge(rank, left, right)?;
    }
    Ok(())
}

fn insert_merge(
    pairs: &mut Pairs,
    words: &Words,
    both: &[u8],
    border: usize,
    rank: u32,
) -> Result<(), Unsupported> {
    let token = |bytes: &[u8]| words.get(bytes).map(|word| word.token);
    let (left, right) = both.split_at(border);
    let (Some(left), Some(right), Some(token)) = (token(left), token(right), token(both)) else {
        return Err(Unsupported::new("merge without tokens", &rank.to_string()));
    };
    pairs.insert(left, right, Merge { rank, token });
    Ok(())
}

impl Merges {
    /// Appends the tokens of a word of bytes.
    fn of_bytes(&self, word: &[u8], merger: &mut Merger, out: &mut Vec<TokenId>) {
        let parts = word.iter().map(|&byte| (self.bytes[usize::from(byte)], 1));
        let parts = parts.filter(|(token, _)| *token != NO_TOKEN);
        merger.encode(
            parts,
            |left, right| self.pairs.get(left.token, right.token),
            out,
        );
    }

    /// Appends the tokens of a word of characters, of which `words` knows the tokens.
    fn of_characters(
        &self,
        word: &str,
        words: &Words,
        merger: &mut Merger,
        out: &mut Vec<TokenId>,
    ) {
        let parts = word.char_indices().flat_map(|(at, character)| {
            let end = at + character.len_utf8();
            let written = &word.as_bytes()[at..end];
            let token = words
                .get(written)
                .map(|word| (word.token, (end - at) as u32));
            // A character without a token is its bytes.
            let fallback = match token {
                Some(_) => &[],
                None => written,
            };
            let fallback = fallback
                .iter()
                .map(|&byte| (self.bytes[usize::from(byte)], 1));
            token.into_iter().chain(fallback)
        });
        merger.encode(
            parts,
            |left, right| self.pairs.get(left.token, right.token),
            out,
        );
    }
}

/// The byte that a token such as `<0x0A>` is named after.
fn named_byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let written = digits.len() == 2 && !digits.contains(|digit: char| digit.is_ascii_lowercase());
    u8::from_str_radix(digits, 16).ok().filter(|_| written)
}
