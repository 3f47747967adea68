//! The messages of `proto/homing.proto`, and their translation from and to [`contract`].

mod convert;
mod event;
mod trace;

#[allow(
    missing_debug_implementations,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::pedantic,
    reason = "generated"
)]
mod generated {
    tonic::include_proto!("homing.v1");
}

pub use convert::{
    from_chunk, from_grpc, from_load, from_request, from_status, to_chunk, to_grpc, to_load,
    to_request, to_status,
};
pub use event::{EnvelopeError, Sender, decode_envelope, encode_envelope};
pub use generated::*;
pub use trace::{read_trace, write_trace};
