//! An answer that an engine's server gives to a proxy, as it passes by.
//!
//! The proxy owns the connection: nothing here can slow, change or end the answer. It is read for what
//! it says about the engine: tokens, their times, how much of the prompt was cached. Bytes that cannot
//! be read end the reading and nothing else.

use std::sync::Arc;
use std::time::Duration;

use contract::TokenChunk;
use tracing::debug;
use transport::Overheard;

use crate::cache_view::{CacheView, PendingRequest};
use crate::completion::StreamError;
use crate::forward::ForwardedAnswer;
use crate::last_sign::LastSign;

#[derive(Debug)]
pub(crate) struct PassingAnswer {
    answer: ForwardedAnswer,
    cache: Arc<CacheView>,
    pending: PendingRequest,
    last_sign: LastSign,
    /// A part of the answer has passed.
    begun: bool,
    /// It cannot be read any further.
    broken: bool,
}

impl PassingAnswer {
    pub(crate) fn new(
        answer: ForwardedAnswer,
        cache: Arc<CacheView>,
        pending: PendingRequest,
        last_sign: LastSign,
    ) -> Self {
        Self {
            answer,
            cache,
            pending,
            last_sign,
            begun: false,
            broken: false,
        }
    }

    fn note(&mut self, read: Result<(), StreamError>) {
        if let Err(error) = read {
            debug!(worker = %self.cache.worker(), %error, "passing answer cannot be read further");
            self.broken = true;
        }
    }
}

impl Overheard for PassingAnswer {
    fn push(&mut self, bytes: &[u8], after: Duration) {
        self.last_sign.seen();
        if !self.broken {
            let read = self.answer.push(bytes, after);
            self.note(read);
        }
    }

    fn end(&mut self, after: Duration) {
        if !self.broken {
            let read = self.answer.done(after);
            self.note(read);
        }
    }

    fn pop(&mut self) -> Option<TokenChunk> {
        let chunk = self.answer.pop();
        self.begun |= chunk.is_some();
        chunk
    }
}

impl Drop for PassingAnswer {
    fn drop(&mut self) {
        if self.begun {
            let complete = self.answer.is_over();
            self.cache
                .answered(&self.pending, &self.answer.summary(), complete);
        }
    }
}
