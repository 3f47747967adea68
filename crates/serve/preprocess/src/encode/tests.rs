//! The cache changes no token.

use proptest::prelude::*;
use tiktoken_rs::o200k_base_singleton;

use super::*;

/// Text in which every rule of the split pattern meets every other.
fn texts() -> impl Strategy<Value = String> {
    let pieces = prop_oneof![
        3 => "[a-zA-Z]{1,6}",
        3 => prop::sample::select(vec![
            " ", "  ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u{a0}", "\u{3000}", "\u{2028}",
        ])
        .prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            "it's", "'S", "'re", "'LL", "don't", "'", "''", "\u{17f}", "'\u{17f}", "camelCase",
            "HTTPServer", "ABc", "iPhone's",
        ])
        .prop_map(str::to_owned),
        1 => "[0-9]{1,5}",
        2 => prop::sample::select(vec![
            ".", ", ", "...", "(a", " (", "/", "//\n", ";\n", "<|", "<|eot_id|>", "|>", "#", "-\n",
        ])
        .prop_map(str::to_owned),
        2 => prop::sample::select(vec![
            "世界", "こんにちは", "é", "e\u{301}", "\u{301}", "ß", "Ǆ", "ʰ", "🦀", "👩‍👩‍👧", "½", "٣",
            "한국어", "\u{0}", "\u{feff}",
        ])
        .prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

fn encoder(cache_bytes: usize, min_piece_bytes: usize) -> Encoder {
    Encoder::new(
        Arc::new(Tokenizer::embedded()),
        PieceCache::new(cache_bytes),
        min_piece_bytes,
    )
}

fn encode(encoder: &Encoder, text: &str, specials: Specials) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    encoder.encode(text, specials, &mut tokens).unwrap();
    tokens
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn plain_text_encodes_as_if_whole(text in texts(), min_piece_bytes in 1_usize..16) {
        let encoder = encoder(1 << 20, min_piece_bytes);
        let expected = o200k_base_singleton().encode_ordinary(&text);
        prop_assert_eq!(&encode(&encoder, &text, Specials::Plain), &expected);
        prop_assert_eq!(&encode(&encoder, &text, Specials::Plain), &expected, "warm");
    }

    #[test]
    fn a_growing_conversation_encodes_as_from_scratch(
        turns in prop::collection::vec(texts(), 1..6),
        min_piece_bytes in 1_usize..16,
        // From nothing at all over constant eviction to plenty.
        cache_bytes in prop::sample::select(vec![0, 8_000, 20_000, 1 << 20]),
    ) {
        let encoder = encoder(cache_bytes, min_piece_bytes);
        let mut text = String::new();
        for turn in turns {
            text.push_str(&turn);
            text.push_str("<|eot_id|>");
            let scratch = encoder.tokenizer().encode(&text, Specials::Parse).unwrap();
            prop_assert_eq!(encode(&encoder, &text, Specials::Parse), scratch);
            prop_assert!(encoder.cache_stats().bytes <= cache_bytes);
        }
    }

    #[test]
    fn arbitrary_unicode_encodes_as_if_whole(text in any::<String>(), min_piece_bytes in 1_usize..16) {
        let encoder = encoder(1 << 20, min_piece_bytes);
        prop_assert_eq!(
            encode(&encoder, &text, Specials::Plain),
            o200k_base_singleton().encode_ordinary(&text)
        );
    }
}

#[test]
fn articles_encode_as_if_whole_and_cost_nothing_the_second_time() {
    let encoder = encoder(1 << 23, MIN_PIECE_BYTES);
    for article in crate::articles() {
        let expected = o200k_base_singleton().encode_ordinary(article.text);
        assert_eq!(encode(&encoder, article.text, Specials::Plain), expected);
    }
    let cold = encoder.cache_stats();
    for article in crate::articles() {
        encode(&encoder, article.text, Specials::Plain);
    }
    let warm = encoder.cache_stats();
    assert_eq!(warm.misses, cold.misses);
    assert_eq!(warm.entries, cold.entries);
}

#[test]
fn a_longer_conversation_encodes_only_its_new_part() {
    let encoder = encoder(1 << 20, MIN_PIECE_BYTES);
    let article = crate::articles()[0].text;
    let mut text = format!("<|start_header_id|>user<|end_header_id|>{article}<|eot_id|>");
    encode(&encoder, &text, Specials::Parse);
    let before = encoder.cache_stats().misses;
    text.push_str("<|start_header_id|>assistant<|end_header_id|>Short.<|eot_id|>");
    encode(&encoder, &text, Specials::Parse);
    // The role and the answer.
    assert_eq!(encoder.cache_stats().misses, before + 2);
}
