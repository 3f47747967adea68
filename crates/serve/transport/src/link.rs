//! The interface between routing and engines.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

use contract::{FrontendLoad, GenerateRequest, KvSnapshot, LinkError, TokenStream};

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
}
