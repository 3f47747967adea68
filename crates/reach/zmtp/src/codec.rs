//! Bytes to frames and messages, and back.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use crate::Message;

/// Both sides begin with so many bytes.
pub const GREETING: usize = 64;
/// More parts than any message of ours or of the engines has.
pub const MOST_PARTS: usize = 64;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
const MECHANISM: &[u8] = b"NULL";

/// What a socket is for. Decides who may talk to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Pub,
    Sub,
    Dealer,
    Router,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Pub => "PUB",
            Self::Sub => "SUB",
            Self::Dealer => "DEALER",
            Self::Router => "ROUTER",
        }
    }

    /// Kinds that may be at the other end.
    const fn peers(self) -> &'static [&'static str] {
        match self {
            Self::Pub => &["SUB", "XSUB"],
            Self::Sub => &["PUB", "XPUB"],
            Self::Dealer => &["ROUTER", "DEALER", "REP"],
            Self::Router => &["DEALER", "REQ", "ROUTER"],
        }
    }
}

/// What a peer did that it may not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    #[error("it does not speak ZeroMQ's protocol, version 3 or later")]
    Greeting,
    #[error("it requires a security mechanism that is not supported")]
    Mechanism,
    #[error("its handshake is invalid")]
    Handshake,
    #[error("it is a {0}, which is not a matching socket type")]
    Peer(String),
    #[error("{size} bytes are more than the {limit} that are allowed")]
    TooLarge { size: u64, limit: usize },
    #[error("a message of more than {MOST_PARTS} parts")]
    TooManyParts,
    #[error("a frame with unknown flags: {0:#04x}")]
    Flags(u8),
}

/// One frame, without its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub command: bool,
    /// Another part of the same message follows.
    pub more: bool,
    pub body: Bytes,
}

/// What we say first: version 3.0, no encryption.
pub fn greeting() -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    greeting[0] = 0xff;
    // What older versions read as a length.
    greeting[8] = 1;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..12 + MECHANISM.len()].copy_from_slice(MECHANISM);
    greeting
}

/// Whether we understand a peer that greets so.
pub fn check_greeting(greeting: &[u8; GREETING]) -> Result<(), Violation> {
    if greeting[0] != 0xff || greeting[9] != 0x7f || greeting[10] < 3 {
        return Err(Violation::Greeting);
    }
    let (mechanism, padding) = greeting[12..32].split_at(MECHANISM.len());
    if mechanism != MECHANISM || padding.iter().any(|byte| *byte != 0) {
        return Err(Violation::Mechanism);
    }
    Ok(())
}

/// Says what we are.
pub fn ready(kind: Kind) -> Frame {
    let mut body = BytesMut::new();
    body.put_slice(b"\x05READY");
    for (name, value) in [("Socket-Type", kind.name()), ("Identity", "")] {
        body.put_u8(name.len() as u8);
        body.put_slice(name.as_bytes());
        body.put_u32(value.len() as u32);
        body.put_slice(value.as_bytes());
    }
    Frame {
        command: true,
        more: false,
        body: body.freeze(),
    }
}

/// Whether a peer that says so goes with us.
pub fn check_ready(kind: Kind, frame: &Frame) -> Result<(), Violation> {
    let properties = frame.body.strip_prefix(b"\x05READY");
    let mut properties = properties
        .filter(|_| frame.command)
        .ok_or(Violation::Handshake)?;
    while !properties.is_empty() {
        let name = take(&mut properties, 1).ok_or(Violation::Handshake)?;
        let value = take(&mut properties, 4).ok_or(Violation::Handshake)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            let value = String::from_utf8_lossy(value);
            return match kind.peers().contains(&&*value) {
                true => Ok(()),
                false => Err(Violation::Peer(value.into_owned())),
            };
        }
    }
    Err(Violation::Handshake)
}

/// Bytes after a length of so many bytes.
fn take<'a>(bytes: &mut &'a [u8], width: usize) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_at_checked(width)?;
    let length = length
        .iter()
        .fold(0_usize, |length, byte| length << 8 | usize::from(*byte));
    let (value, rest) = rest.split_at_checked(length)?;
    *bytes = rest;
    Some(value)
}

/// Appends a frame.
pub fn encode(frame: &Frame, out: &mut BytesMut) {
    let long = frame.body.len() > usize::from(u8::MAX);
    let flag = |set: bool, bit: u8| if set { bit } else { 0 };
    out.put_u8(flag(frame.more, MORE) | flag(long, LONG) | flag(frame.command, COMMAND));
    if long {
        out.put_u64(frame.body.len() as u64);
    } else {
        out.put_u8(frame.body.len() as u8);
    }
    out.put_slice(&frame.body);
}

/// Appends a message.
pub fn encode_message(message: &[Bytes], out: &mut BytesMut) {
    for (index, part) in message.iter().enumerate() {
        let frame = Frame {
            command: false,
            more: index + 1 < message.len(),
            body: part.clone(),
        };
        encode(&frame, out);
    }
}

/// Takes the first frame out of the buffer; `None` while it is not all there. A frame that is
/// too large is refused as soon as it has said its length.
pub fn decode(buffer: &mut BytesMut, limit: usize) -> Result<Option<Frame>, Violation> {
    let Some(&flags) = buffer.first() else {
        return Ok(None);
    };
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(Violation::Flags(flags));
    }
    let header = if flags & LONG == 0 { 2 } else { 9 };
    if buffer.len() < header {
        return Ok(None);
    }
    let size = if flags & LONG == 0 {
        u64::from(buffer[1])
    } else {
        (&buffer[1..]).get_u64()
    };
    let length = usize::try_from(size).ok().filter(|size| *size <= limit);
    let length = length.ok_or(Violation::TooLarge { size, limit })?;
    if buffer.len() < header + length {
        return Ok(None);
    }
    buffer.advance(header);
    Ok(Some(Frame {
        command: flags & COMMAND != 0,
        more: flags & MORE != 0,
        body: buffer.split_to(length).freeze(),
    }))
}

/// Gathers the frames of a message.
#[derive(Debug, Default)]
pub struct Assembly {
    parts: Message,
    size: usize,
}

impl Assembly {
    /// The message, once its last part is there. Commands are no part of any: a peer may send
    /// them at any time, and none of them concerns us after the handshake.
    pub fn take(&mut self, frame: Frame, limit: usize) -> Result<Option<Message>, Violation> {
        if frame.command {
            return Ok(None);
        }
        self.size += frame.body.len();
        if self.size > limit {
            let size = self.size as u64;
            return Err(Violation::TooLarge { size, limit });
        }
        if self.parts.len() == MOST_PARTS {
            return Err(Violation::TooManyParts);
        }
        self.parts.push(frame.body);
        if frame.more {
            return Ok(None);
        }
        self.size = 0;
        Ok(Some(std::mem::take(&mut self.parts)))
    }
}

#[cfg(test)]
mod tests;
