//! Headers of our own, and the one that names a request.

use http::HeaderName;

pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) static WORKER: HeaderName = HeaderName::from_static("x-homing-worker");
/// What was removed from a request so that its prefix stays the same.
pub(crate) static NORMALIZED: HeaderName = HeaderName::from_static("x-homing-normalized");
pub(crate) static SIMULATED: HeaderName = HeaderName::from_static("x-homing-simulated");
/// What the request needed for which the engine's own server answered it.
pub(crate) static FORWARDED: HeaderName = HeaderName::from_static("x-homing-forwarded");
