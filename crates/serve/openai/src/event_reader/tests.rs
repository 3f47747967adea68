//! Events by hand, and events cut at random.

use proptest::prelude::*;

use super::*;

fn events(reads: &[&[u8]]) -> Vec<String> {
    let (mut parser, mut events) = (Parser::default(), Vec::new());
    for read in reads {
        parser
            .push(read, |data| events.push(data.to_owned()))
            .unwrap();
    }
    events
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(events(&[text.as_bytes()]), expected, "{text:?}");
}

#[test]
fn events_are_read_as_the_standard_says() {
    check("data: one\n\ndata: two\n\n", &["one", "two"]);
    check("data:no space\n\n", &["no space"]);
    check("data:  two spaces\n\n", &[" two spaces"]);
    check("data: first\ndata: second\n\n", &["first\nsecond"]);
    check("data\n\n", &[""]);
    check("data:\ndata\n\n", &["\n"]);
    check("\u{feff}data: marked\n\n", &["marked"]);
    check(": a comment\n\ndata: after\n\n", &["after"]);
    check("event: ping\nid: 7\nretry: 10\ndata: x\n\n", &["x"]);
    check("database: no\nDATA: no\n\n", &[]);
    check("\n\n\n", &[]);
    check("data: unfinished", &[]);
    check("data: unfinished\n", &[]);
    check("data: [DONE]\n\n", &[DONE]);
}

#[test]
fn lines_end_in_three_ways() {
    for end in ["\n", "\r\n", "\r"] {
        let text = ["data: a", "data: b", "", "data: c", "", ""].join(end);
        check(&text, &["a\nb", "c"]);
    }
    check("data: a\r\n\rdata: b\n\r\n", &["a", "b"]);
}

#[test]
fn a_character_may_be_cut() {
    let text = "data: é€😀\n\n".as_bytes();
    for cut in 0..text.len() {
        assert_eq!(events(&[&text[..cut], &text[cut..]]), ["é€😀"], "at {cut}");
    }
}

#[test]
fn what_is_no_text_is_replaced() {
    assert_eq!(events(&[b"data: a\xffb\n\n"]), ["a\u{fffd}b"]);
}

#[test]
fn an_endless_event_is_refused() {
    let mut parser = Parser::default();
    let line = [b"data: ".as_slice(), &vec![b'x'; LONGEST_EVENT / 2], b"\n"].concat();
    assert_eq!(parser.push(&line, |_| ()), Ok(()));
    assert_eq!(parser.push(&line, |_| ()), Err(TooLong));
}

/// Pieces that a stream could be made of, ends and halves of them included.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(b"data: ".to_vec()),
        Just(b"data:".to_vec()),
        Just(b"event: x".to_vec()),
        Just(b": note".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"\n\n".to_vec()),
        Just("ü€😀".as_bytes().to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
        "[a-z{}\": ]{0,8}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn reads_do_not_matter(
        fragments in prop::collection::vec(fragment(), 0..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes = fragments.concat();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let reads: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        prop_assert_eq!(events(&reads), events(&[&bytes]));
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(events(&single), events(&[&bytes]));
    }
}
