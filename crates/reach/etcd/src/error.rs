//! Why etcd did not do what it was asked.

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{address}` is no address of etcd: {detail}")]
    Address { address: String, detail: String },
    /// No endpoint answered; later one may.
    #[error("etcd cannot be reached: {detail}")]
    Unreachable { detail: String },
    /// The lease under which the key was to live is over; only a new one helps.
    #[error("the lease is over")]
    LeaseOver,
    /// etcd understood and will not.
    #[error("etcd refused: {detail}")]
    Refused { detail: String },
}
