//! How byte-level vocabularies write bytes.
//!
//! Each byte is a visible character: visible Latin-1 bytes are themselves, the other 68 are the
//! characters from U+0100 on, in order.

/// Whether a byte is written as the Latin-1 character of the same number.
const fn is_visible(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff)
}

/// One more than the last character of the alphabet.
const END: usize = 256 + 68;

/// Bytes by character, and a number beyond bytes where a character stands for none.
const BYTES: [u16; END] = {
    let mut bytes = [u16::MAX; END];
    let (mut byte, mut next) = (0, 256);
    while byte < 256 {
        if is_visible(byte as u8) {
            bytes[byte] = byte as u16;
        } else {
            bytes[next] = byte as u16;
            next += 1;
        }
        byte += 1;
    }
    bytes
};

/// The byte that a character of the alphabet stands for.
pub fn byte_of(character: char) -> Option<u8> {
    let byte = *BYTES.get(character as usize)?;
    u8::try_from(byte).ok()
}

/// Appends the bytes that a token's text stands for. Nothing is appended if a character is not
/// in the alphabet.
pub fn push_bytes(text: &str, bytes: &mut Vec<u8>) -> bool {
    let before = bytes.len();
    for character in text.chars() {
        let Some(byte) = byte_of(character) else {
            bytes.truncate(before);
            return false;
        };
        bytes.push(byte);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_that_of_the_library() {
        let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
        assert_eq!(alphabet.len(), 256);
        let mut bytes: Vec<u8> = alphabet
            .into_iter()
            .map(|character| byte_of(character).unwrap())
            .collect();
        bytes.sort_unstable();
        assert!(bytes.into_iter().eq(0..=u8::MAX));
        // The best-known members.
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
        assert_eq!(byte_of('é'), Some(0xe9));
        assert_eq!(byte_of('世'), None);
        assert_eq!(byte_of('\u{7f}'), None);
    }
}
