//! The scanners against the library's regular expressions.

use std::sync::LazyLock;

use proptest::prelude::*;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, SplitDelimiterBehavior,
};

use super::*;

fn words(steps: &[Step], text: &str) -> Vec<String> {
    let mut words = Vec::new();
    Splitter::new(steps.to_vec()).words(text, |word| words.push(word.to_owned()));
    words
}

/// The library's splitters, which take long to make.
static SPLITS: LazyLock<Vec<(Step, Split)>> = LazyLock::new(|| {
    let split = |(pattern, step, _): (&str, Step, bool)| {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false);
        (step, split.unwrap())
    };
    PATTERNS.into_iter().map(split).collect()
});

fn library_words(steps: &[Step], text: &str) -> Vec<String> {
    let mut pieces = PreTokenizedString::from(text);
    for step in steps {
        let split = SPLITS.iter().find(|(known, _)| known == step);
        match split {
            Some((_, split)) => split.pre_tokenize(&mut pieces).unwrap(),
            None => Digits::new(true).pre_tokenize(&mut pieces).unwrap(),
        }
    }
    pieces
        .get_splits(OffsetReferential::Original, OffsetType::Byte)
        .into_iter()
        .map(|(word, ..)| word.to_owned())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Every list of steps that a model has.
const LISTS: [&[Step]; 10] = [
    &[Step::Gpt2],
    &[Step::Lettered {
        digits: 3,
        marks: false,
    }],
    &[Step::Lettered {
        digits: 1,
        marks: false,
    }],
    &[Step::Lettered {
        digits: 1,
        marks: true,
    }],
    &[Step::Cased {
        digits: 3,
        contractions: true,
    }],
    &[Step::Cased {
        digits: 1,
        contractions: false,
    }],
    &[Step::Numbers { digits: 3 }, Step::Chinese, Step::DeepSeek],
    &[Step::Digits, Step::Gpt2],
    &[Step::Numbers { digits: 1 }],
    &[Step::DeepSeek],
];

#[track_caller]
fn check(text: &str) {
    for steps in LISTS {
        assert_eq!(
            words(steps, text),
            library_words(steps, text),
            "{steps:?} {text:?}"
        );
    }
}

#[test]
fn words_end_where_the_patterns_say() {
    for text in [
        "",
        " ",
        "a",
        "Hello world",
        "Hello  world",
        " \n",
        "\n \n x",
        "a\r\n\r\nb",
        "  \t x",
        "\t!",
        " !",
        "  !",
        "!!\r\n\n/x",
        "a/b//\n/",
        "it's IT'S it'S 'sam 'Re're 'LL'll 'd'D 'ſ 'x ''s",
        "don’t",
        "12345 67 ½² Ⅷ ٣٤٥٦",
        "HTTPServer getURL ABCdef aBC",
        "日本語ABC日本abc",
        "日AAAA",
        "e\u{301}a\u{301}\u{302} \u{301}x !\u{301} \u{301}",
        "\u{301}'s A\u{301}'s",
        "ǅabc Ǆ ǆ ʰa aʰ",
        "😀👍🏽 👨‍👩‍👧 🇩🇪",
        "\0\u{1}\u{7f}\u{85}\u{a0}x\u{3000}\u{2028}y",
        "\u{378}\u{e000}\u{10ffff}a \u{378}",
        "a_b __c $d @e #f",
        "x=1;y=\"2\"",
        ".abc .1 -x-y",
        "かなカナ漢字 x漢 1漢2",
        "\u{200d}a \u{200b}b",
    ] {
        check(text);
    }
}

/// What a backtracking engine would give up on, or take minutes for.
#[test]
fn a_run_of_anything_is_split_in_time_that_grows_with_its_length() {
    for unit in [
        " ", "\n", "a", "A", "日", "\u{301}", "!", "1", " !", "A日", "\r\n ", "'",
    ] {
        let text = unit.repeat(100_000);
        for steps in LISTS {
            let words = words(steps, &text);
            assert_eq!(words.concat().len(), text.len());
        }
    }
}

#[test]
fn a_pattern_that_looks_alike_is_not_known() {
    assert_eq!(Step::of_pattern(GPT2), Some((Step::Gpt2, true)));
    assert_eq!(Step::of_pattern(&format!("{GPT2} ")), None);
    assert_eq!(Step::of_pattern(r"\p{N}{1,2}"), None);
}

fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop::sample::select(vec![
            "a", "B", "é", "É", "ǅ", "ʰ", "日", "か", "ß", "ſ", "s", "S", "t", "re", "ll", "'", "'",
            "’", "\u{301}", "\u{93f}", "1", "٣", "½", " ", " ", " ", "\n", "\r", "\t", "\u{a0}",
            "\u{85}", "\u{3000}", "!", "/", "-", "$", "_", "😀", "\u{200d}", "\u{378}", "\0", "‚",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_text_is_split_as_the_library_splits_it(text in texts()) {
        check(&text);
    }
}
