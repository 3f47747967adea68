//! A request on the wire: u16 length and path of the endpoint, u16 length and headers in
//! JSON, u32 length and payload; all numbers big-endian. The answer on the same connection
//! is a u32 length and that many bytes: none if the request was taken, otherwise why not.

use super::DecodeError;

/// The longest refusal worth reading.
const LONGEST_ACKNOWLEDGEMENT: usize = 64 << 10;

/// No headers: tracing is all that they carry.
const HEADERS: &[u8] = b"{}";

/// Fails if a part does not fit its length field.
pub fn encode(path: &str, payload: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let too_large = |what, size: usize, limit| DecodeError::TooLarge {
        what,
        size: size as u64,
        limit,
    };
    let path_length = u16::try_from(path.len())
        .map_err(|_| too_large("path", path.len(), usize::from(u16::MAX)))?;
    let payload_length = u32::try_from(payload.len())
        .map_err(|_| too_large("request", payload.len(), u32::MAX as usize))?;
    let mut bytes = Vec::with_capacity(8 + path.len() + HEADERS.len() + payload.len());
    bytes.extend_from_slice(&path_length.to_be_bytes());
    bytes.extend_from_slice(path.as_bytes());
    bytes.extend_from_slice(&(HEADERS.len() as u16).to_be_bytes());
    bytes.extend_from_slice(HEADERS);
    bytes.extend_from_slice(&payload_length.to_be_bytes());
    bytes.extend_from_slice(payload);
    Ok(bytes)
}

/// How many bytes follow the four that are given.
pub fn acknowledgement_length(bytes: [u8; 4]) -> Result<usize, DecodeError> {
    let size = u32::from_be_bytes(bytes);
    if size as usize > LONGEST_ACKNOWLEDGEMENT {
        return Err(DecodeError::TooLarge {
            what: "acknowledgement",
            size: u64::from(size),
            limit: LONGEST_ACKNOWLEDGEMENT,
        });
    }
    Ok(size as usize)
}

/// A worker's reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    Taken,
    /// It has no capacity left.
    Overloaded(String),
    /// It is about to shut down.
    Unavailable(String),
    Refused(String),
}

impl Acknowledgement {
    pub fn decode(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Taken;
        }
        let text = String::from_utf8_lossy(bytes).into_owned();
        if text.starts_with("Server overloaded:") {
            Self::Overloaded(text)
        } else if text.starts_with("Server unavailable:") {
            Self::Unavailable(text)
        } else {
            Self::Refused(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_path_headers_payload() {
        let bytes = encode("1b/generate", b"xyz").unwrap();
        assert_eq!(bytes, b"\0\x0b1b/generate\0\x02{}\0\0\0\x03xyz");
        assert!(encode(&"p".repeat(70_000), b"").is_err());
    }

    #[test]
    fn acknowledgements_say_why() {
        use Acknowledgement::*;
        let check = |bytes: &[u8], expected| assert_eq!(Acknowledgement::decode(bytes), expected);
        check(b"", Taken);
        let overloaded = "Server overloaded: worker at capacity";
        check(overloaded.as_bytes(), Overloaded(overloaded.to_owned()));
        let unavailable = "Server unavailable: worker pool channel closed";
        check(unavailable.as_bytes(), Unavailable(unavailable.to_owned()));
        check(
            b"Unknown endpoint: x",
            Refused("Unknown endpoint: x".to_owned()),
        );
        check(b"\xff\xfe", Refused("\u{fffd}\u{fffd}".to_owned()));
        assert_eq!(acknowledgement_length([0, 0, 0, 9]), Ok(9));
        assert!(acknowledgement_length([0xff; 4]).is_err());
    }
}
