//! Stop strings, however the text is cut.

use proptest::prelude::*;

use super::*;

/// Pushes the pieces and says what came out after each, with `!` where it stopped.
#[track_caller]
fn check(stops: &[&str], pieces: &[&str], expected: &[&str]) {
    let stops: Vec<String> = stops.iter().map(|&stop| stop.to_owned()).collect();
    let mut matcher = StopMatcher::new(&stops);
    let mut steps = Vec::new();
    for piece in pieces {
        let mut step = String::new();
        if matcher.push(piece, &mut step) {
            step.push('!');
        }
        steps.push(step);
    }
    let mut rest = String::new();
    matcher.finish(&mut rest);
    steps.push(rest);
    assert_eq!(steps, expected);
}

#[test]
fn only_what_could_start_a_stop_string_is_held_back() {
    check(
        &["END"],
        &["a", "bE", "xE", "N", "Dc"],
        &["a", "b", "Ex", "", "!", ""],
    );
    check(&["END"], &["abEN"], &["ab", "EN"]);
    check(&["\n\n"], &["a\n", "b\n", "\nc"], &["a", "\nb", "!", ""]);
    check(&[], &["a", "b"], &["a", "b", ""]);
}

#[test]
fn text_after_the_stop_string_is_dropped() {
    check(&["."], &["a. b", "c"], &["a!", "!", ""]);
    check(&["a"], &["a"], &["!", ""]);
}

#[test]
fn the_stop_string_that_ends_first_wins() {
    check(&["abcd", "bc"], &["xabcd"], &["xa!", ""]);
    check(&["abc", "bc"], &["xabc"], &["x!", ""]);
    check(&["later", "now"], &["a now b later"], &["a !", ""]);
}

#[test]
fn a_stop_string_may_repeat_its_own_start() {
    check(&["aab"], &["a", "a", "a", "b"], &["", "", "a", "!", ""]);
    check(&["ünd"], &["ü", "ü", "n", "dx"], &["", "ü", "", "!", ""]);
}

/// The rule, character by character.
fn naive(stops: &[String], text: &str) -> (String, bool) {
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        let ending = stops
            .iter()
            .filter(|stop| text[..end].ends_with(stop.as_str()));
        if let Some(longest) = ending.map(String::len).max() {
            return (text[..end - longest].to_owned(), true);
        }
    }
    (text.to_owned(), false)
}

proptest! {
    #[test]
    fn the_cut_into_pieces_does_not_matter(
        stops in prop::collection::vec("[abü]{1,4}", 0..4),
        pieces in prop::collection::vec("[abcü]{0,4}", 0..12),
    ) {
        let mut matcher = StopMatcher::new(&stops);
        let mut out = String::new();
        let mut stopped = false;
        for piece in &pieces {
            stopped = matcher.push(piece, &mut out);
        }
        matcher.finish(&mut out);
        prop_assert_eq!((out, stopped), naive(&stops, &pieces.concat()));
    }
}
