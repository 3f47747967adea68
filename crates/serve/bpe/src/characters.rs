//! What kind of character: the properties that split patterns ask for.
//!
//! The tables are those of Unicode 16, from `regex-syntax`, as Oniguruma has them, with which the
//! `tokenizers` library matches; a test compares every code point. Unpacked once per process into
//! blocks of which equal ones are shared, some 20 kB in all, so that a lookup is two reads.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

/// Properties of a character, as a set of bits.
pub(crate) type Properties = u16;

/// `[\p{Lu}\p{Lt}]`
pub(crate) const UPPER: Properties = 1;
/// `\p{Ll}`
pub(crate) const LOWER: Properties = 1 << 1;
/// `[\p{Lm}\p{Lo}]`
pub(crate) const CASELESS: Properties = 1 << 2;
/// `\p{M}`
pub(crate) const MARK: Properties = 1 << 3;
/// `\p{N}`
pub(crate) const NUMBER: Properties = 1 << 4;
/// `\p{P}`
pub(crate) const PUNCTUATION: Properties = 1 << 5;
/// `\p{S}`
pub(crate) const SYMBOL: Properties = 1 << 6;
/// `\s`
pub(crate) const SPACE: Properties = 1 << 7;
/// `\p{L}`
pub(crate) const LETTER: Properties = UPPER | LOWER | CASELESS;

/// The byte is no character: one that is not ASCII begins there, which the tables know.
const LONGER: Properties = 1 << 8;

/// The properties of bytes, for text that is ASCII, as most is.
static BYTES: [Properties; 256] = {
    let mut bytes = [LONGER; 256];
    let mut byte = 0;
    while byte < 128 {
        bytes[byte] = match byte as u8 {
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' => LOWER,
            b'0'..=b'9' => NUMBER,
            b'\t'..=b'\r' | b' ' => SPACE,
            b'$' | b'+' | b'<' | b'=' | b'>' | b'^' | b'`' | b'|' | b'~' => SYMBOL,
            b'!'..=b'/' | b':'..=b'@' | b'['..=b'`' | b'{'..=b'~' => PUNCTUATION,
            _ => 0,
        };
        byte += 1;
    }
    bytes
};

const CLASSES: [(&str, Properties); 8] = [
    (r"[\p{Lu}\p{Lt}]", UPPER),
    (r"\p{Ll}", LOWER),
    (r"[\p{Lm}\p{Lo}]", CASELESS),
    (r"\p{M}", MARK),
    (r"\p{N}", NUMBER),
    (r"\p{P}", PUNCTUATION),
    (r"\p{S}", SYMBOL),
    (r"\s", SPACE),
];

const BLOCK: usize = 128;
const CODE_POINTS: usize = char::MAX as usize + 1;

/// Two steps from a character to its properties.
#[derive(Debug)]
pub(crate) struct Characters {
    /// Which block each run of [`BLOCK`] code points has.
    blocks: Box<[u16]>,
    properties: Box<[[u8; BLOCK]]>,
}

impl Characters {
    pub(crate) fn get() -> &'static Self {
        static CHARACTERS: LazyLock<Characters> = LazyLock::new(Characters::unpack);
        &CHARACTERS
    }

    fn unpack() -> Self {
        let mut all: Vec<u8> = vec![0; CODE_POINTS];
        for (class, bit) in CLASSES {
            let hir = regex_syntax::parse(class).expect("the class is valid");
            let HirKind::Class(Class::Unicode(class)) = hir.kind() else {
                unreachable!("it is a class of characters");
            };
            for range in class.ranges() {
                for properties in &mut all[range.start() as usize..=range.end() as usize] {
                    *properties |= u8::try_from(bit).expect("there are eight");
                }
            }
        }
        let mut distinct: Vec<[u8; BLOCK]> = Vec::new();
        let (blocks, _) = all.as_chunks::<BLOCK>();
        let blocks = blocks.iter().map(|block| {
            let known = distinct.iter().rposition(|known| known == block);
            let at = known.unwrap_or_else(|| {
                distinct.push(*block);
                distinct.len() - 1
            });
            u16::try_from(at).expect("there are fewer blocks than that")
        });
        Self {
            blocks: blocks.collect(),
            properties: distinct.into(),
        }
    }

    #[inline]
    pub(crate) fn properties(&self, character: char) -> Properties {
        let code = character as usize;
        let block = usize::from(self.blocks[code / BLOCK]);
        Properties::from(self.properties[block][code % BLOCK])
    }

    /// The properties of the character at byte `at`, and where it ends; `None` at the end.
    #[inline(always)]
    pub(crate) fn at(&self, text: &str, at: usize) -> Option<(Properties, usize)> {
        let properties = BYTES[usize::from(*text.as_bytes().get(at)?)];
        match properties & LONGER == 0 {
            true => Some((properties, at + 1)),
            false => self.longer(text, at),
        }
    }

    fn longer(&self, text: &str, at: usize) -> Option<(Properties, usize)> {
        let character = text[at..].chars().next()?;
        Some((self.properties(character), at + character.len_utf8()))
    }

    /// Where a run of characters with any of these properties ends that starts at byte `at`.
    #[inline(always)]
    pub(crate) fn run(&self, text: &str, at: usize, any: Properties) -> usize {
        self.run_while(text, at, |properties| properties & any != 0)
    }

    /// Where a run of characters without these properties ends.
    #[inline(always)]
    pub(crate) fn run_without(&self, text: &str, at: usize, none: Properties) -> usize {
        self.run_while(text, at, |properties| properties & none == 0)
    }

    #[inline(always)]
    fn run_while(&self, text: &str, mut at: usize, belongs: impl Fn(Properties) -> bool) -> usize {
        while let Some((properties, end)) = self.at(text, at)
            && belongs(properties)
        {
            at = end;
        }
        at
    }
}

#[cfg(test)]
mod tests;
