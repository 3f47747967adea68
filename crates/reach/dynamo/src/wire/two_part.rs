//! Frames of two parts: three big-endian u64 (header length, body length, checksum), then
//! the header, then the body.
//!
//! The checksum is optional (0 for none) and no version in use sends one: TCP has its own.

use super::DecodeError;

const PREFIX: usize = 24;

/// One frame, borrowed from the bytes that it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    pub header: &'a [u8],
    pub body: &'a [u8],
}

/// The frame at the beginning of `bytes`, and how many bytes it takes; `None` if more have
/// to come. `limit` bounds header and body together.
pub fn decode(bytes: &[u8], limit: usize) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let number = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&prefix[at..at + 8]);
        u64::from_be_bytes(bytes)
    };
    let (header, body) = (number(0), number(8));
    let size = header.saturating_add(body);
    if size > limit as u64 {
        let what = "frame";
        return Err(DecodeError::TooLarge { what, size, limit });
    }
    // Both fit a usize, because their sum is below a limit that is one.
    let (header, size) = (header as usize, size as usize);
    let Some(parts) = rest.get(..size) else {
        return Ok(None);
    };
    let (header, body) = parts.split_at(header);
    Ok(Some((Frame { header, body }, PREFIX + size)))
}

pub fn encode(header: &[u8], body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX + header.len() + body.len());
    bytes.extend_from_slice(&(header.len() as u64).to_be_bytes());
    bytes.extend_from_slice(&(body.len() as u64).to_be_bytes());
    bytes.extend_from_slice(&0_u64.to_be_bytes());
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(body);
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_anything_is_read() {
        for lengths in [
            (u64::MAX, u64::MAX),
            (u64::MAX, 0),
            (0, 1 << 40),
            (900, 200),
        ] {
            let mut bytes = encode(b"", b"");
            bytes[0..8].copy_from_slice(&lengths.0.to_be_bytes());
            bytes[8..16].copy_from_slice(&lengths.1.to_be_bytes());
            let error = decode(&bytes, 1000).unwrap_err();
            assert!(matches!(error, DecodeError::TooLarge { .. }), "{error}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_and_no_beginning_of_it_is(
            header in prop::collection::vec(any::<u8>(), 0..40),
            body in prop::collection::vec(any::<u8>(), 0..40),
            more in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let frame = encode(&header, &body);
            for end in 0..frame.len() {
                prop_assert_eq!(decode(&frame[..end], 1000), Ok(None));
            }
            let bytes = [&frame[..], &more].concat();
            let expected = Frame { header: &header, body: &body };
            prop_assert_eq!(decode(&bytes, 1000), Ok(Some((expected, frame.len()))));
        }

        #[test]
        fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = decode(&bytes, 1000);
        }
    }
}
