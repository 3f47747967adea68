//! Every code point against the library's regular expressions.

use tokenizers::utils::SysRegex;

use super::*;

#[test]
fn every_character_has_the_properties_that_the_library_sees() {
    let characters = Characters::get();
    let all: String = ('\0'..=char::MAX).collect();
    for (class, bit) in CLASSES {
        let regex = SysRegex::new(&format!("{class}+")).unwrap();
        let mut runs = Vec::new();
        for (at, character) in all.char_indices() {
            if characters.properties(character) & bit == 0 {
                continue;
            }
            match runs.last_mut() {
                Some((_, end)) if *end == at => *end += character.len_utf8(),
                _ => runs.push((at, at + character.len_utf8())),
            }
        }
        let expected: Vec<_> = regex.find_iter(&all).collect();
        assert_eq!(runs, expected, "{class}");
    }
}

#[test]
fn ascii_has_the_same_properties_in_the_short_table() {
    let characters = Characters::get();
    for character in '\0'..='\x7f' {
        let text = character.to_string();
        let expected = (characters.properties(character), 1);
        assert_eq!(characters.at(&text, 0), Some(expected), "{character:?}");
    }
    assert_eq!(characters.at("é", 0), Some((LOWER, 2)));
    assert_eq!(characters.at("é", 2), None);
}
