//! A tiny byte-level model: 256 bytes, a few merges, special tokens.
//!
//! The merges are those that a wrong cut would lose or allow: runs of line breaks and of
//! spaces, a space with a word, parts of words.

use serde_json::{Value, json};

/// Patterns that group white space with the line breaks at its end.
const GROUPING_PATTERNS: [&str; 4] = [
    // Llama 3 and cl100k.
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    // Qwen 2.
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    // o200k.
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    // Mistral's Tekken.
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
];
const GPT2_PATTERN: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const DEEP_SEEK_PATTERNS: [&str; 3] = [
    r"\p{N}{1,3}",
    "[一-龥\u{3040}-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
];

const MERGES: [(&str, &str); 14] = [
    ("Ċ", "Ċ"),
    ("ĊĊ", "Ċ"),
    ("Ġ", "Ġ"),
    ("Ġ", "Ċ"),
    ("Ċ", "Ġ"),
    ("t", "h"),
    ("th", "e"),
    ("Ġ", "the"),
    ("Ġ", "a"),
    ("'", "s"),
    ("1", "2"),
    ("12", "3"),
    ("Ã", "©"),
    (".", "Ċ"),
];

pub(crate) const BEGIN: u32 = 270;
pub(crate) const END_OF_TURN: u32 = 271;
pub(crate) const TOOL: u32 = 272;
pub(crate) const THINK: u32 = 273;

/// `tokenizer.json` with Llama 3's split pattern.
pub(crate) fn llama() -> Value {
    let mut vocabulary = serde_json::Map::new();
    let mut alphabet: Vec<char> = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet()
        .into_iter()
        .collect();
    alphabet.sort_unstable();
    let texts = alphabet.into_iter().map(String::from);
    let merged = MERGES.iter().map(|(left, right)| format!("{left}{right}"));
    for (id, text) in texts.chain(merged).enumerate() {
        vocabulary.insert(text, json!(id));
    }
    let added = |id: u32, content: &str, special: bool, normalized: bool| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": normalized, "special": special,
        })
    };
    json!({
        "version": "1.0",
        "truncation": { "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0 },
        "padding": null,
        "added_tokens": [
            added(BEGIN, "<|begin_of_text|>", true, false),
            added(END_OF_TURN, "<|eot_id|>", true, false),
            added(TOOL, "<tool>", false, false),
            added(THINK, "<think>", false, true),
        ],
        "normalizer": null,
        "pre_tokenizer": split(GROUPING_PATTERNS[0]),
        "post_processor": null,
        "decoder": { "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true },
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null,
            "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": false,
            "byte_fallback": false, "ignore_merges": false,
            "vocab": vocabulary,
            "merges": MERGES.map(|(left, right)| [left, right]),
        }
    })
}

/// The same with other rules for splitting.
pub(crate) fn variants() -> Vec<(&'static str, Value)> {
    let with = |pre_tokenizer: Value, normalizer: Value| {
        let mut file = llama();
        file["pre_tokenizer"] = pre_tokenizer;
        file["normalizer"] = normalizer;
        file
    };
    let nfc = json!({ "type": "NFC" });
    let byte_level = |add_prefix_space: bool| json!({ "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": true });
    let digits_first = json!({ "type": "Sequence", "pretokenizers": [
        { "type": "Digits", "individual_digits": true }, byte_level(false),
    ] });
    let mut stripping = llama();
    stripping["added_tokens"][1]["rstrip"] = json!(true);
    vec![
        ("llama", llama()),
        ("qwen", with(split(GROUPING_PATTERNS[1]), nfc.clone())),
        ("o200k", with(split(GROUPING_PATTERNS[2]), Value::Null)),
        ("tekken", with(split(GROUPING_PATTERNS[3]), Value::Null)),
        ("deepseek", with(splits(&DEEP_SEEK_PATTERNS), Value::Null)),
        ("smollm", with(digits_first, Value::Null)),
        ("gpt2", with(byte_level(false), Value::Null)),
        ("gpt2 split", with(split(GPT2_PATTERN), nfc.clone())),
        ("unknown: prefix space", with(byte_level(true), Value::Null)),
        (
            "unknown: like qwen",
            with(split(&format!("{}|x", GROUPING_PATTERNS[1])), nfc.clone()),
        ),
        ("unknown: pattern", with(split(r"\w+|\W+"), Value::Null)),
        (
            "unknown: normaliser",
            with(byte_level(false), json!({ "type": "Lowercase" })),
        ),
        ("unknown: stripping", stripping),
        ("unknown: nothing", with(Value::Null, Value::Null)),
    ]
}

fn split(pattern: &str) -> Value {
    splits(&[pattern])
}

fn splits(patterns: &[&str]) -> Value {
    let split = |pattern: &&str| {
        json!({
            "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated", "invert": false,
        })
    };
    let mut steps: Vec<Value> = patterns.iter().map(split).collect();
    steps.push(json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false,
    }));
    json!({ "type": "Sequence", "pretokenizers": steps })
}
