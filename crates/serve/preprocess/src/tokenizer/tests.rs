//! Both vocabularies, against the libraries behind them.

use expect_test::expect;

use super::*;

fn parts(text: &str, specials: Specials) -> String {
    let tokenizer = Tokenizer::embedded();
    let parts: Vec<String> = tokenizer
        .segments(text, specials)
        .map(|segment| match segment {
            Segment::Text(text) => format!("{text:?}"),
            Segment::Special(id) => id.to_string(),
        })
        .collect();
    parts.join(" ")
}

#[test]
fn text_is_parted_at_special_tokens() {
    expect![[r#"200019 "a <b" 200023 200023 "<|eot_id|""#]].assert_eq(&parts(
        "<|begin_of_text|>a <b<|eot_id|><|eot_id|><|eot_id|",
        Specials::Parse,
    ));
    expect![[r#""a<|eot_id|>""#]].assert_eq(&parts("a<|eot_id|>", Specials::Plain));
    expect![""].assert_eq(&parts("", Specials::Parse));
}

#[test]
fn the_longest_special_token_wins() {
    let tokens = special::SpecialTokens::new(vec![
        (1, "<a".to_owned()),
        (2, "<a>".to_owned()),
        (3, "[x]".to_owned()),
        (4, "§".to_owned()),
        (5, "x".to_owned()),
        (6, String::new()),
    ]);
    let found: Vec<_> = special::Segments::new(Some(&tokens), "<a><ab§[x[x]").collect();
    assert_eq!(
        found,
        [
            Segment::Special(2),
            Segment::Special(1),
            Segment::Text("b"),
            Segment::Special(4),
            Segment::Text("["),
            Segment::Special(5),
            Segment::Special(3),
        ]
    );
}

#[test]
fn the_embedded_vocabulary_is_o200k_with_five_more() {
    let tokenizer = Tokenizer::embedded();
    assert_eq!(tokenizer.vocab_size(), 200_024);
    assert_eq!(tokenizer.bos(), Some(embedded::BEGIN_OF_TEXT));
    assert_eq!(
        **tokenizer.eos_tokens(),
        [embedded::END_OF_TEXT, embedded::END_OF_TURN]
    );
    assert_eq!(
        tokenizer.token_bytes(embedded::END_OF_TURN),
        Some(&b"<|eot_id|>"[..])
    );
    assert_eq!(tokenizer.token_bytes(199_999), Some(&b""[..]), "nothing");
    assert_eq!(
        tokenizer.token_bytes(u32::MAX),
        Some(&b""[..]),
        "out of range"
    );
    assert!(tokenizer.is_special(embedded::BEGIN_OF_TEXT) && !tokenizer.is_special(0));
    // OpenAI's own example of o200k.
    assert_eq!(
        tokenizer.encode("hello world", Specials::Plain).unwrap(),
        [24912, 2375]
    );
    assert_eq!(
        tokenizer
            .encode("hi<|eot_id|>", Specials::Parse)
            .unwrap()
            .last(),
        Some(&embedded::END_OF_TURN)
    );
    assert!(
        !tokenizer
            .encode("hi<|eot_id|>", Specials::Plain)
            .unwrap()
            .contains(&embedded::END_OF_TURN)
    );
}

#[test]
fn decoding_undoes_encoding() {
    let tokenizer = Tokenizer::embedded();
    for text in ["", "hello", "naïve 世界 🦀\n\n\tx", "a<|eot_id|>b"] {
        let tokens = tokenizer.encode(text, Specials::Plain).unwrap();
        assert_eq!(tokenizer.decode(&tokens), text);
    }
    let tokens = tokenizer.encode("a<|eot_id|>b", Specials::Parse).unwrap();
    assert_eq!(
        tokenizer.decode(&tokens),
        "ab",
        "special tokens are no text"
    );
}
