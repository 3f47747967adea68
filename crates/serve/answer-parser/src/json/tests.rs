//! One letter per character.

use super::*;

/// The steps of an object after its opening brace: `.` structure, `k` key, `K` its end, `v` value,
/// `V` its end, `,` comma, `}` end, `!` malformed.
#[track_caller]
fn check(object: &str, expected: &str) {
    let mut scanner = ObjectScanner::new();
    let mut steps = String::new();
    for c in object.chars() {
        let step = scanner.step(c);
        steps.push(match step {
            Step::Structure => '.',
            Step::Key => 'k',
            Step::KeyEnd => 'K',
            Step::Value => 'v',
            Step::ValueEnd => 'V',
            Step::Comma => ',',
            Step::End => '}',
            Step::Malformed => '!',
        });
        if matches!(step, Step::End | Step::Malformed) {
            break;
        }
    }
    assert_eq!(steps, expected, "{object}");
}

#[test]
fn keys_and_values_are_told_apart() {
    check("}", "}");
    check(r#""a": 1}"#, "kkK..v}");
    check(r#" "a" : "b" , "c":{}}"#, ".kkK...vvV.,.kkK.vV}");
    check(r#""a":[1,{"b":2}],"c":null}"#, "kkK.vvvvvvvvvvV,kkK.vvvv}");
    check(r#""a":-1.5e+3 }"#, "kkK.vvvvvvv.}");
}

#[test]
fn brackets_and_quotes_in_strings_do_not_count() {
    check(r#""}":"}{"}"#, "kkK.vvvV}");
    check(r#""a\"":"b\\"}"#, "kkkkK.vvvvV}");
    check(r#""a":{"b":"}\"]"}}"#, "kkK.vvvvvvvvvvvV}");
}

#[test]
fn what_is_no_object_is_malformed() {
    check("x", "!");
    check(r#""a" 1"#, "kkK.!");
    check(r#""a":}"#, "kkK.!");
    check(r#""a":'b'}"#, "kkK.!");
    check(r#""a":1,}"#, "kkK.v,!");
    check(r#""a":"b" "c""#, "kkK.vvV.!");
    check(r#""a":1 2"#, "kkK.v.!");
}

#[test]
fn a_tag_ends_a_value_that_was_cut_off() {
    check(r#""a":{"b":[1</x>"#, "kkK.vvvvvvv!");
    check(r#""a":{"b":"<"}}"#, "kkK.vvvvvvvvV}");
}
