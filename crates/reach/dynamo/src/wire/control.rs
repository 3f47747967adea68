//! Headers of frames, always JSON: who asks and where to answer; how an answer begins; how
//! it is cancelled.

use serde::{Deserialize, Serialize};

use super::{Codec, DecodeError, two_part};

/// The largest header that any version sends is a few hundred bytes.
pub const LARGEST_HEADER: usize = 64 << 10;

/// A request's header.
#[derive(Debug, Serialize)]
struct Request<'a> {
    id: &'a str,
    request_type: &'static str,
    response_type: &'static str,
    payload_codec: &'static str,
    connection_info: ConnectionInfo,
}

#[derive(Debug, Serialize)]
struct ConnectionInfo {
    transport: &'static str,
    /// JSON in a string.
    info: String,
}

#[derive(Debug, Serialize)]
struct CallBack<'a> {
    address: &'a str,
    subject: &'a str,
    context: &'a str,
    stream_type: &'static str,
}

/// Where a worker delivers an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerTo<'a> {
    /// `host:port`
    pub address: &'a str,
    /// Identifies the request on the connection.
    pub subject: &'a str,
}

/// The payload of a request: its id, where to answer, and its body.
pub fn request(id: &str, answer_to: AnswerTo<'_>, codec: Codec, body: &[u8]) -> Vec<u8> {
    let call_back = CallBack {
        address: answer_to.address,
        subject: answer_to.subject,
        context: id,
        stream_type: "response",
    };
    let header = Request {
        id,
        request_type: "single_in",
        response_type: "many_out",
        payload_codec: codec.name(),
        connection_info: ConnectionInfo {
            transport: "tcp_server",
            info: String::from_utf8(Codec::Json.encode(&call_back)).expect("JSON is text"),
        },
    };
    two_part::encode(&Codec::Json.encode(&header), body)
}

/// The first frame on a connection that a worker opens: which request it answers.
pub fn subject(header: &[u8]) -> Result<String, DecodeError> {
    #[derive(Deserialize)]
    struct Greeting {
        subject: String,
        stream_type: String,
    }
    let greeting: Greeting = Codec::Json.decode("greeting", header)?;
    if greeting.stream_type != "response" {
        return Err(DecodeError::malformed("greeting", "not a response stream"));
    }
    Ok(greeting.subject)
}

/// The second frame: what kept the worker from answering, if anything did.
pub fn prologue(header: &[u8]) -> Result<Option<String>, DecodeError> {
    #[derive(Deserialize)]
    struct Prologue {
        error: Option<String>,
    }
    let prologue: Prologue = Codec::Json.decode("prologue", header)?;
    Ok(prologue.error)
}

/// Whether a header says that nothing more will come.
pub fn is_sentinel(header: &[u8]) -> bool {
    header == br#""sentinel""#
}

/// The frame that cancels a request at once.
pub fn kill() -> Vec<u8> {
    two_part::encode(br#""kill""#, b"")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn a_request_says_where_to_answer() {
        let answer_to = AnswerTo {
            address: "10.0.0.1:9",
            subject: "s1",
        };
        let bytes = request("r1", answer_to, Codec::Msgpack, b"body");
        let (frame, _) = two_part::decode(&bytes, 4096).unwrap().unwrap();
        assert_eq!(frame.body, b"body");
        expect![[r#"{"id":"r1","request_type":"single_in","response_type":"many_out","payload_codec":"msgpack","connection_info":{"transport":"tcp_server","info":"{\"address\":\"10.0.0.1:9\",\"subject\":\"s1\",\"context\":\"r1\",\"stream_type\":\"response\"}"}}"#]]
            .assert_eq(std::str::from_utf8(frame.header).unwrap());
    }

    #[test]
    fn an_answer_names_its_request() {
        let good = br#"{"subject":"s1","stream_type":"response"}"#;
        assert_eq!(subject(good), Ok("s1".to_owned()));
        for bad in [
            &br#"{"subject":"s1","stream_type":"request"}"#[..],
            br#"{"subject":7,"stream_type":"response"}"#,
            br#"{"stream_type":"response"}"#,
            b"",
            b"\xff",
            b"[[[[[[",
        ] {
            assert!(subject(bad).is_err(), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn a_prologue_may_say_what_went_wrong() {
        assert_eq!(prologue(br#"{"error":null}"#), Ok(None));
        assert_eq!(prologue(br#"{"error":"no"}"#), Ok(Some("no".to_owned())));
        assert!(prologue(br#"{"error":3}"#).is_err());
        assert!(prologue(b"null").is_err());
    }
}
