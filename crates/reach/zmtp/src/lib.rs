//! ZeroMQ's wire protocol (ZMTP 3.0 without encryption), as much of it as events need.
//!
//! | kind | its peer | here |
//! |---|---|---|
//! | SUB | PUB | [`Subscriber`]: listens, and connects again by itself |
//! | DEALER | ROUTER | [`Asker`]: asks, and reads any number of answers |
//! | PUB | SUB | [`Publisher`]: tells everybody who listens; who is slow misses some |
//! | ROUTER | DEALER | [`serve_answers`]: answers whoever asks |
//!
//! [`replay`] is the protocol on top of the last two by which publishers of cache events send
//! missed ones again.
//!
//! Written because peers are strangers: a frame says how long it is before it comes, and the
//! libraries at hand make room for whatever is said, so that nine bytes from anybody end the
//! process. Here everything that is read has a limit that its reader chose.
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
