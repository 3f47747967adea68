//! ZeroMQ's wire protocol (ZMTP 3.0 without encryption), as much of it as events need.
//!
//! | kind | its peer | here |
//! |---|---|---|
//! | SUB | PUB | [`Subscriber`]: listens, and connects again by itself |
//! | DEALER | ROUTER | [`Asker`]: asks, and reads any number of answers |
//! | PUB | SUB | [`Publisher`]: sends to all subscribers; slow ones miss messages |
//! | ROUTER | DEALER | [`serve_answers`]: answers every request |
//!
//! [`replay`] is the protocol on top of the last two by which publishers of cache events send
//! missed ones again.
//!
//! Written because peers are untrusted: a frame announces its length before it comes, and the
//! available libraries allocate whatever is announced, so that nine bytes from anybody abort
//! the process. Here everything that is read has a limit that its reader chose.
//!
//! What decides is in [`codec`], pure; the rest are thin shells around it.

mod answers;
pub mod codec;
mod connection;
mod publisher;
pub mod replay;
mod subscriber;

pub use answers::{Asker, serve_answers};
pub use connection::{Bound, Error};
pub use publisher::Publisher;
pub use subscriber::Subscriber;

use bytes::Bytes;

/// What is sent and received at once: one or more parts.
pub type Message = Vec<Bytes>;
