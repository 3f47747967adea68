//! A small client of etcd, version 3: what a registry of workers needs and no more.
//!
//! - [`Etcd`] reads, writes and deletes keys; several endpoints stand in for each other;
//! - [`Lease`] keeps itself alive, says when it is lost and gives itself back;
//! - [`Watch`] tells what lies under a prefix and every change of it, without a hole between
//!   the two, across restarts of etcd too.
//!
//! It is our own because the published clients compile etcd's interface with `protoc`, which
//! a newcomer with Rust and Node does not have. The interface is in `proto/etcd.proto`, cut
//! down to the fields in use.
//!
//! # Left out
//!
//! Transactions, users and passwords: a registry needs none, and a certificate says who a
//! client is.

mod client;
mod error;
mod lease;
mod tls;
mod watch;

/// etcd's messages, as the build wrote them.
#[expect(
    clippy::allow_attributes_without_reason,
    unreachable_pub,
    reason = "the generator's style is not ours"
)]
mod wire {
    tonic::include_proto!("etcdserverpb");
}

pub use client::{Etcd, LeaseId};
pub use error::Error;
pub use lease::Lease;
pub use tls::{ClientCertificate, Tls};
pub use watch::{Update, Watch};

/// What lies under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    /// The lease with which it vanishes.
    pub lease: Option<LeaseId>,
}

impl From<wire::KeyValue> for KeyValue {
    fn from(pair: wire::KeyValue) -> Self {
        Self {
            key: pair.key,
            value: pair.value,
            lease: (pair.lease != 0).then_some(LeaseId(pair.lease)),
        }
    }
}

/// The first key after all keys that begin with `prefix`. etcd reads a lone zero byte as "to
/// the end of all keys", which is what follows an empty prefix and one of 0xff only.
fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    vec![0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_its_successor() {
        assert_eq!(end_of(b"v1/"), b"v10");
        assert_eq!(end_of(b"a\xff\xff"), b"b");
        assert_eq!(end_of(b"\xff"), b"\0");
        assert_eq!(end_of(b""), b"\0");
    }
}
