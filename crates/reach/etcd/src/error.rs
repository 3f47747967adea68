//! Why etcd did not do what it was asked.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{address}` is not an etcd address: {detail}")]
    Address { address: String, detail: String },
    /// No endpoint answered; later one may.
    #[error("etcd is unreachable: {detail}")]
    Unreachable { detail: String },
    /// The lease under which the key was to live is over; only a new one helps.
    #[error("the lease has expired")]
    LeaseOver,
    /// etcd understood and will not.
    #[error("etcd rejected the request: {detail}")]
    Refused { detail: String },
}
