//! Small `tokenizer.json` files of every family, for tests and the fuzz target.
//!
//! Merges are chosen by numbers, so that a generator can make any list of them: also lists that
//! no training would give, in which a merge makes a pair of a lower rank than its own, or a token
//! has several ways to it and its own bytes lead elsewhere.

use serde_json::{Map, Value, json};

use crate::split::PATTERNS;

/// A kind of file: its name, and the file without merges.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: String,
    file: Value,
    /// The tokens that merges begin from.
    roots: Vec<String>,
}

/// What texts for these families are best made of.
pub const PIECES: [&str; 40] = [
    "a",
    "b",
    "e",
    "s",
    "A",
    "ab",
    "'",
    "'s",
    "'S",
    " ",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\t",
    "1",
    "23",
    ".",
    "!",
    "/",
    "日",
    "本",
    "é",
    "e\u{301}",
    "\u{301}",
    "か\u{3099}",
    "😀",
    "\u{a0}",
    "▁",
    "<0x0A>",
    "<s>",
    "<end>",
    "<mask>",
    "<tool>",
    "<tool",
    "<think>",
    "\u{0}",
    "\u{378}",
    "Ġ",
    "ſ",
];

/// Tokens that do not grow beyond all bounds.
const LONGEST: usize = 24;

impl Family {
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (pattern, ..) in PATTERNS {
            let step = json!({
                "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated",
                "invert": false,
            });
            let steps = json!({ "type": "Sequence", "pretokenizers": [step, byte_level(false)] });
            for normalizer in [Value::Null, json!({ "type": "NFC" })] {
                let name = format!("{pattern} {normalizer}");
                all.push(Self::of_bytes(name, normalizer, steps.clone()));
            }
        }
        let digits = json!({ "type": "Digits", "individual_digits": true });
        let steps = json!({ "type": "Sequence", "pretokenizers": [digits, byte_level(true)] });
        all.push(Self::of_bytes("digits".to_owned(), Value::Null, steps));
        let mut ignoring =
            Self::of_bytes("ignores merges".to_owned(), Value::Null, byte_level(true));
        ignoring.file["model"]["ignore_merges"] = true.into();
        all.push(ignoring);

        let replace = json!({ "type": "Replace", "pattern": { "String": " " }, "content": "▁" });
        let prepend = json!({ "type": "Prepend", "prepend": "▁" });
        let both = json!({ "type": "Sequence", "normalizers": [prepend, replace] });
        let no_split = json!({
            "type": "Split", "pattern": { "String": " " }, "behavior": "MergedWithPrevious",
            "invert": false,
        });
        all.push(Self::of_characters("llama 2", both, Value::Null));
        all.push(Self::of_characters("gemma", replace, no_split));
        for scheme in ["always", "first", "never"] {
            let metaspace = json!({
                "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": false,
            });
            let mut family = Self::of_characters(scheme, Value::Null, metaspace);
            family.file["model"]["ignore_merges"] = (scheme == "first").into();
            all.push(family);
        }
        all
    }

    /// The file with merges: each of two numbers that choose among the roots and the tokens that
    /// were made before.
    pub fn file(&self, merges: &[(u16, u16)]) -> Value {
        let mut file = self.file.clone();
        let vocabulary = file["model"]["vocab"].as_object_mut().expect("it is a map");
        let mut tokens = self.roots.clone();
        let mut list = Vec::new();
        for (left, right) in merges {
            let [left, right] = [left, right].map(|at| &tokens[usize::from(*at) % tokens.len()]);
            let both = format!("{left}{right}");
            if both.chars().count() > LONGEST {
                continue;
            }
            list.push(json!([left, right]));
            if !vocabulary.contains_key(&both) {
                vocabulary.insert(both.clone(), vocabulary.len().into());
                tokens.push(both);
            }
        }
        let first_added = vocabulary.len();
        file["model"]["merges"] = list.into();
        file["added_tokens"] = added(first_added);
        file
    }

    fn of_bytes(name: String, normalizer: Value, pre_tokenizer: Value) -> Self {
        let mut vocabulary = Map::new();
        for byte in 0..=u8::MAX {
            let character = ('\0'..='\u{200}').find(|at| crate::byte_of(*at) == Some(byte));
            let character = character.expect("every byte has a character");
            vocabulary.insert(character.to_string(), byte.into());
        }
        let roots = [
            "a", "b", "e", "s", "A", "'", "Ġ", "Ċ", "č", "1", ".", "Ã", "©", "æ", "Ĺ", "¥",
        ];
        Self {
            name,
            file: file(normalizer, pre_tokenizer, vocabulary),
            roots: roots.map(str::to_owned).into(),
        }
    }

    fn of_characters(name: &str, normalizer: Value, pre_tokenizer: Value) -> Self {
        let mut vocabulary = Map::new();
        vocabulary.insert("<unk>".to_owned(), 0.into());
        for byte in 0..=u8::MAX {
            vocabulary.insert(format!("<0x{byte:02X}>"), vocabulary.len().into());
        }
        let roots = [
            "▁", "a", "b", "e", "s", "A", "'", "\n", "1", ".", "日", "é", "<", "0",
        ];
        for root in roots {
            vocabulary.insert(root.to_owned(), vocabulary.len().into());
        }
        let mut file = file(normalizer, pre_tokenizer, vocabulary);
        file["model"]["unk_token"] = "<unk>".into();
        file["model"]["fuse_unk"] = true.into();
        file["model"]["byte_fallback"] = true.into();
        Self {
            name: name.to_owned(),
            file,
            roots: roots.map(str::to_owned).into(),
        }
    }
}

fn byte_level(use_regex: bool) -> Value {
    json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex,
    })
}

fn added(first: usize) -> Value {
    let flags = [
        // special, normalized, lstrip, rstrip
        ("<s>", [true, false, false, false]),
        ("<end>", [true, false, false, true]),
        ("<mask>", [true, false, true, false]),
        ("<tool>", [false, false, false, false]),
        ("<tool><s>", [true, false, false, false]),
        ("<think>", [false, true, false, false]),
        ("e\u{301}e\u{301}", [false, true, false, false]),
    ];
    let token = |(at, (content, flags)): (usize, (&str, [bool; 4]))| {
        let [special, normalized, lstrip, rstrip] = flags;
        json!({
            "id": first + at, "content": content, "single_word": false, "special": special,
            "normalized": normalized, "lstrip": lstrip, "rstrip": rstrip,
        })
    };
    (0..).zip(flags).map(token).collect()
}

fn file(normalizer: Value, pre_tokenizer: Value, vocabulary: Map<String, Value>) -> Value {
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": null,
        "decoder": null,
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": false, "vocab": vocabulary, "merges": [],
        },
    })
}
