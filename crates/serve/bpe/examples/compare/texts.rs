//! Texts to compare with: made by a generator, the same for the same seed.

/// SplitMix64: the numbers must be the same everywhere, and need not be good.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn of<'a>(&mut self, all: &'a [impl AsRef<str>]) -> &'a str {
        all[self.below(all.len())].as_ref()
    }
}

/// Ranges of code points: scripts with and without case, marks, symbols, private use, and some
/// that are not assigned.
const SCRIPTS: [(u32, u32); 38] = [
    (0x00, 0x7f),
    (0x20, 0x7e),
    (0x80, 0xff),
    (0x100, 0x24f),
    (0x250, 0x2ff),
    (0x300, 0x36f),
    (0x370, 0x3ff),
    (0x400, 0x52f),
    (0x530, 0x58f),
    (0x590, 0x5ff),
    (0x600, 0x6ff),
    (0x900, 0x97f),
    (0x980, 0x9ff),
    (0xe00, 0xe7f),
    (0xf00, 0xfff),
    (0x10a0, 0x10ff),
    (0x1100, 0x11ff),
    (0x13a0, 0x13ff),
    (0x1c80, 0x1cff),
    (0x1d00, 0x1dff),
    (0x1e00, 0x1fff),
    (0x2000, 0x206f),
    (0x2070, 0x218f),
    (0x2190, 0x2bff),
    (0x2c00, 0x2dff),
    (0x3000, 0x30ff),
    (0x3100, 0x33ff),
    (0x4e00, 0x9fff),
    (0xa640, 0xabff),
    (0xac00, 0xd7af),
    (0xe000, 0xe0ff),
    (0xf900, 0xfaff),
    (0xfb00, 0xffff),
    (0x1_0000, 0x1_06ff),
    (0x1_d100, 0x1_d7ff),
    (0x1_e000, 0x1_e9ff),
    (0x1_f000, 0x1_faff),
    (0x0, 0x10_ffff),
];

const SPACES: [&str; 14] = [
    " ", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\u{a0}", "\u{3000}",
    "\u{85}", "\u{2028}",
];

const CONTRACTIONS: [&str; 20] = [
    "'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'vE", "'m", "'M", "'ll", "'LL", "'lL",
    "'d", "'D", "'ſ", "’s", "''s", "'x",
];

const CODE: [&str; 16] = [
    "fn main() {\n    println!(\"{}\", x);\n}\n",
    "for (int i = 0; i < n; i++) {\r\n\t\treturn a[i] != 0x1F;\r\n\t}\r\n",
    "SELECT * FROM `t` WHERE id >= 10 AND name LIKE '%a%';\n",
    "<div class=\"x\"><td>&nbsp;</td></div>",
    "https://example.org/a/b?c=d&e=f#g",
    "def __init__(self, *args, **kwargs):\n        pass\n\n\n",
    "{\"key\": [1, 2.5, -3e10, null, true]}",
    "#include <stdio.h>\n",
    "// ---------------------------------\n",
    "camelCaseWord HTTPServer XMLHttpRequest getID2",
    "snake_case_word __dunder__ $var @attr",
    "a+b-c*d/e%f^g&h|i~j!k=l",
    "\\frac{1}{2} \\alpha_{i,j}^2",
    "1234567890 3.14159 1,000,000 ½ ² Ⅷ ٣٤٥",
    "▁▁ ▁a <0x0A> <unk> </s> <s>",
    "../../path/to\\file.txt",
];

const EMOJI: [&str; 12] = [
    "😀",
    "👍🏽",
    "👨‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇩🇪",
    "❤️",
    "1️⃣",
    "🦀",
    "☃",
    "\u{fe0f}",
    "\u{200d}",
    "🫠",
];

/// Makes texts out of a vocabulary's own tokens, words, and everything above.
pub(crate) struct Texts<'a> {
    pub(crate) random: Random,
    pub(crate) words: &'a [String],
    /// What tokens look like as text.
    pub(crate) tokens: &'a [String],
    /// Names of added tokens.
    pub(crate) added: &'a [String],
}

impl Texts<'_> {
    /// A text of some hundred to some thousand characters.
    pub(crate) fn next(&mut self) -> String {
        let mut text = String::new();
        let length = 1 << (4 + self.random.below(9));
        // Texts differ in what they are mostly made of.
        let favourite = self.random.below(KINDS);
        while text.len() < length {
            let kind = match self.random.below(2) {
                0 => favourite,
                _ => self.random.below(KINDS),
            };
            for _ in 0..=self.random.below(8) {
                self.push(kind, &mut text);
            }
        }
        text
    }

    fn push(&mut self, kind: usize, text: &mut String) {
        let random = &mut self.random;
        match kind {
            0 | 1 => {
                text.push_str(random.of(self.words));
                text.push(' ');
            }
            2 => {
                let (first, last) = SCRIPTS[random.below(SCRIPTS.len())];
                for _ in 0..=random.below(12) {
                    let code = first + random.below((last - first + 1) as usize) as u32;
                    text.extend(char::from_u32(code));
                }
            }
            3 => text.push_str(random.of(&SPACES)),
            4 => {
                let word = random.of(self.words);
                match random.below(3) {
                    0 => text.push_str(word),
                    1 => text.push_str(&word.to_uppercase()),
                    _ => {}
                }
                text.push_str(random.of(&CONTRACTIONS));
            }
            5 => text.push_str(random.of(&CODE)),
            6 => text.push_str(random.of(&EMOJI)),
            7 => text.push_str(random.of(self.tokens)),
            8 => match random.below(4) {
                0 => text.push_str(
                    self.added
                        .get(random.below(self.added.len()))
                        .map_or("", |t| t),
                ),
                _ => text.push_str(random.of(self.tokens)),
            },
            9 => {
                let repeated = match random.below(3) {
                    0 => random.of(&SPACES),
                    1 => random.of(&["a", "ab", "A", "=", "-", "日", "é", "1", "!", "\u{301}"]),
                    _ => random.of(self.tokens),
                };
                let times = 1 << random.below(7);
                text.extend(std::iter::repeat_n(repeated, times));
            }
            10 => text.push_str(&random.next().to_string()[..1 + random.below(10)]),
            _ => {
                // A word with marks, and in another normal form.
                for character in random.of(self.words).chars() {
                    text.push(character);
                    if random.below(3) == 0 {
                        let mark = 0x300 + random.below(0x30) as u32;
                        text.extend(char::from_u32(mark));
                    }
                }
            }
        }
    }
}

const KINDS: usize = 12;
