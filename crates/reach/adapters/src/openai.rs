//! Any other server with OpenAI's `/v1/completions` that takes token ids.
//!
//! Nothing beyond that API is sent, because many servers refuse a request with a field that
//! they do not know. There are no events and no load, so the cache is estimated from what was
//! sent.

use contract::GenerateRequest;

use crate::dialect::{CacheEvents, Dialect, USUAL_ENDPOINTS};
use crate::extensions::Extensions;

pub(crate) const DIALECT: Dialect = Dialect {
    name: "openai",
    extensions,
    logprobs: false,
    cache_salt: false,
    omits_zero_cached: false,
    events: CacheEvents::None,
    load: None,
    about: None,
    forwards: USUAL_ENDPOINTS,
    reset_path: None,
    reset_hint: "",
};

fn extensions(_: &GenerateRequest) -> Extensions<'_> {
    Extensions::default()
}
