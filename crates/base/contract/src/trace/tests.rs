//! What is a trace context, and what is taken for none.

use proptest::prelude::*;

use super::*;

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn read(text: &str) -> Option<TraceContext> {
    text.parse().ok()
}

#[test]
fn a_header_is_read_and_written() {
    let context = read(PARENT).unwrap();
    assert_eq!(
        context.trace.to_string(),
        "0af7651916cd43dd8448eb211c80319c"
    );
    assert_eq!(context.span.to_string(), "b7ad6b7169203331");
    assert!(context.is_sampled());
    assert_eq!(context.parent(), PARENT);
    let ours = context.with_span(SpanId::new(0xabc).unwrap());
    assert_eq!(
        ours.parent(),
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000abc-01"
    );
}

#[test]
fn flags_that_we_know_are_kept_and_others_are_not() {
    for (sent, kept) in [
        ("00", "00"),
        ("01", "01"),
        ("02", "02"),
        ("03", "03"),
        ("ff", "03"),
        ("fc", "00"),
    ] {
        let context = read(&format!("{}{sent}", &PARENT[..53])).unwrap();
        assert_eq!(&context.parent()[53..], kept, "{sent}");
    }
}

#[test]
fn later_versions_are_read_as_far_as_they_are_known() {
    let rest = &PARENT[2..];
    for text in [
        format!("01{rest}"),
        format!("fe{rest}"),
        format!("01{rest}-"),
        format!("cc{rest}-what-the-future-holds"),
    ] {
        assert_eq!(
            read(&text).map(|context| context.parent()),
            Some(PARENT.to_owned()),
            "{text}"
        );
    }
}

#[test]
fn what_is_wrong_is_taken_for_none() {
    let rest = &PARENT[2..];
    let long = "a".repeat(100_000);
    for text in [
        "",
        "00",
        "-",
        long.as_str(),
        // Version ff; appended to version 00; appended without a dash.
        &format!("ff{rest}"),
        &format!("{PARENT}-"),
        &format!("{PARENT}-extra"),
        &format!("{PARENT}{long}"),
        &format!("01{rest}extra"),
        // All zero.
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        // Not hexadecimal, capitals, signs, spaces, other separators, other characters.
        "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-+1",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331- 1",
        "0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
        "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0af7651916cd43dd8448eb211c8031é-b7ad6b7169203331-01",
    ] {
        assert_eq!(read(text), None, "{text:.80}");
    }
}

#[track_caller]
fn check_state(headers: &[&str], expected: Option<&str>) {
    let context = read(PARENT).unwrap();
    let context = context.with_state(headers.iter().map(|header| header.as_bytes()));
    assert_eq!(context.state(), expected, "{headers:?}");
}

#[test]
fn state_is_handed_on_as_it_came_unless_it_is_absurd() {
    check_state(&[], None);
    check_state(&["", " "], None);
    check_state(&["a=1,b=2"], Some("a=1,b=2"));
    check_state(&["a=1", "", " b=2 "], Some("a=1,b=2"));
    check_state(&["a=\u{e9}"], None);
    check_state(&["a=1\r\nx: y"], None);
    let longest = format!("a={}", "x".repeat(510));
    check_state(&[&longest], Some(&longest));
    check_state(&[&longest, "b"], None);
    let most = vec!["a=1"; 32].join(",");
    check_state(&[&most], Some(&most));
    check_state(&[&most, "b=2"], None);
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(trace in 1_u128.., span in 1_u64.., sampled: bool) {
        let context = TraceContext::root(
            TraceId::new(trace).unwrap(),
            SpanId::new(span).unwrap(),
            sampled,
        );
        prop_assert_eq!(read(&context.parent()), Some(context));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,80}", cut in 0_usize..56) {
        let _ = read(&text);
        let mut mixed = PARENT.to_owned();
        mixed.truncate(cut);
        mixed.push_str(&text);
        if let Some(context) = read(&mixed) {
            prop_assert_eq!(context.parent().len(), PARENT_LENGTH);
        }
    }
}
