//! The endpoint picker of a gateway: answers Envoy's question where each request is to go.
//!
//! A gateway that implements the Gateway API Inference Extension has a filter (Envoy calls it external
//! processing) that opens a gRPC stream for each HTTP request and shows it to this crate: headers, body,
//! then the same of the answer. What comes back is the endpoint's address and everything else untouched.
//!
//! ```text
//! Envoy ── headers, body … ──► exchange (whose turn is it?) ──► frontend::Picker ── router
//!       ◄── endpoint, body … ──┘
//!       ── answer's headers, body … ──► passed back at once, then read: tokens, cached tokens, end
//! ```
//!
//! | module | what it does | |
//! |---|---|---|
//! | [`exchange`] | the order of one request's messages | pure |
//! | [`wire`] | the messages, from and to what we know | pure |
//! | `stream` | one gRPC stream: does what `exchange` orders | |
//! | [`server`] | listeners, limits | |
//! | `health` | `grpc.health.v1` | |
//! | [`identity`] | the certificate | |
//!
//! Who is chosen is [`frontend::Picker`]'s matter and the router's. A stream that ends or breaks drops
//! what it holds, which gives the place on the endpoint back. The pure modules are public for those who
//! play Envoy: fuzzing, and the benchmark.

pub mod exchange;
mod health;
pub mod identity;
pub mod server;
mod stream;
pub mod wire;

pub use identity::Identity;
pub use server::{Service, serve};
