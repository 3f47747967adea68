//! The interface between routing and engines.

use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use contract::{
    ForwardRequest, FrontendLoad, GenerateRequest, KvSnapshot, LinkError, TokenChunk, TokenStream,
};

/// What a link's methods return. Boxed, because a pool holds links of different kinds.
pub type LinkFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, LinkError>> + Send + 'a>>;

/// How a request reaches one worker: in process, over gRPC, or through a foreign engine's
/// HTTP API.
///
/// Dropping a [`TokenStream`] cancels its request; there is no other way to abort. A link
/// must survive its worker: after the worker is gone every call answers with an error.
pub trait WorkerLink: Debug + Send + Sync + 'static {
    /// Starts a request. The stream ends with a finish reason or an error, never silently.
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream>;

    /// Everything the worker holds, to repair a feed that has a gap.
    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot>;

    /// Forgets every cached block that no running request uses.
    fn reset_cache(&self) -> LinkFuture<'_, ()>;

    /// Reports what this frontend is running on the worker, for the other frontends of the
    /// same worker. Called often; must not wait. A worker that serves one frontend only does
    /// not need to know.
    fn tell_load(&self, load: FrontendLoad) {
        let _ = load;
    }

    /// The way to the server of the worker's own engine, if it has one.
    fn forwarder(&self) -> Option<&dyn Forwarder> {
        None
    }
}

/// Sends requests in the client's own words to an engine that has a server of the same API.
pub trait Forwarder: Send + Sync {
    /// Starts a request. Of `request` only its identity, its seed and its prompt count, and the
    /// prompt only for what is known of the engine's cache: it may be empty. The stream's chunks
    /// are [written](contract::Written) by the engine.
    fn forward<'a>(
        &'a self,
        request: &'a GenerateRequest,
        forward: &'a ForwardRequest,
    ) -> LinkFuture<'a, TokenStream>;

    /// Where the server listens, for a proxy that sends requests there itself; `None` if it is
    /// known by a name alone.
    fn address(&self) -> Option<SocketAddr>;

    /// Follows a request that a proxy sends to the server itself. To be called before it is sent:
    /// what the engine holds by then is what it may find cached.
    fn overhear(&self, request: &GenerateRequest, forward: &ForwardRequest) -> Box<dyn Overheard>;
}

/// An answer that passes by on its way from an engine's server to a client. Dropping it records what
/// the engine is known to hold from then on, if any of the answer came.
pub trait Overheard: Debug + Send {
    /// Takes the next bytes of the answer. `after` is the time since the request was sent.
    fn push(&mut self, bytes: &[u8], after: Duration);

    /// The answer ended in good order.
    fn end(&mut self, after: Duration);

    /// The next part that the bytes so far make up.
    fn pop(&mut self) -> Option<TokenChunk>;
}
