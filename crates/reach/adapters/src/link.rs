//! How a request reaches an engine's server.

use std::net::SocketAddr;
use std::sync::Arc;

use contract::{
    Clock, ForwardRequest, GenerateRequest, HashSeed, KvSnapshot, LinkError, TokenId, TokenStream,
    WorkerId, error_chain,
};
use http::{Method, StatusCode};
use http_client::read;
use openai::event_reader::Parser;
use tokio_util::sync::CancellationToken;
use transport::{Forwarder, LinkFuture, Overheard, WorkerLink};

use crate::cache_view::CacheView;
use crate::completion::{self, Answer, CompletionRequest};
use crate::dialect::Dialect;
use crate::forward::{self, ForwardedAnswer};
use crate::http::{HttpError, Limits, Sender, Server};
use crate::last_sign::LastSign;
use crate::overheard::PassingAnswer;
use crate::retokenize::Tokenize;
use crate::settings::Timing;
use crate::stream::{HttpChunks, Reader};

/// The longest error message that is read from an engine.
const MOST_ERROR_BYTES: usize = 64 << 10;

/// A request on its way to the engine.
struct Posted {
    path: &'static str,
    body: Vec<u8>,
    /// What the engine is believed to compute; may be empty if nobody knows.
    prompt: Vec<TokenId>,
    /// What a status other than 200 means.
    refusal: fn(WorkerId, StatusCode, &[u8]) -> LinkError,
}

#[derive(Debug)]
pub(crate) struct HttpLink {
    pub(crate) dialect: &'static Dialect,
    /// The model's name at the engine.
    pub(crate) model: String,
    pub(crate) server: Server,
    /// Of the server, if it is not known by a name alone.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) cache: Arc<CacheView>,
    pub(crate) tokenize: Tokenize,
    pub(crate) clock: Clock,
    pub(crate) timing: Timing,
    pub(crate) last_sign: LastSign,
    /// Fires when the engine is gone.
    pub(crate) gone: CancellationToken,
}

impl HttpLink {
    fn worker(&self) -> WorkerId {
        self.cache.worker()
    }

    fn unreachable(&self, error: &HttpError) -> LinkError {
        LinkError::Unreachable {
            worker: self.worker(),
            detail: error_chain(error),
        }
    }

    /// Waits for a response, until the engine is gone.
    async fn wait<T>(
        &self,
        response: impl Future<Output = Result<T, HttpError>>,
    ) -> Result<T, LinkError> {
        let response = self.gone.run_until_cancelled(response).await;
        let response = response.unwrap_or(Err(HttpError::Gone));
        response.map_err(|error| self.unreachable(&error))
    }

    fn refused(&self, reason: &dyn std::error::Error) -> LinkError {
        LinkError::Refused {
            worker: self.worker(),
            detail: error_chain(reason),
        }
    }

    async fn start(&self, request: GenerateRequest) -> Result<TokenStream, LinkError> {
        let sent = CompletionRequest::new(self.dialect, &self.model, &request);
        let CompletionRequest { body, prompt } = sent.map_err(|error| self.refused(&error))?;
        let posted = Posted {
            path: completion::PATH,
            body,
            prompt,
            refusal: completion::refusal,
        };
        let tokenize = self.tokenize.clone();
        self.post(&request, posted, |expected| {
            let answer = Answer::new(&request.limits, request.logprobs, expected, tokenize);
            Reader::Tokens {
                events: Parser::default(),
                answer: Box::new(answer),
            }
        })
        .await
    }

    async fn start_forwarded(
        &self,
        request: &GenerateRequest,
        forward: &ForwardRequest,
    ) -> Result<TokenStream, LinkError> {
        let adapter = forward.adapter.as_deref().unwrap_or_default();
        let salt = match completion::cache_salt(self.dialect, request.hash_seed) {
            Ok(salt) => salt,
            // The engine itself keeps adapters apart, and nothing else is asked for.
            Err(_) if request.hash_seed == HashSeed::new(adapter, "") => None,
            Err(error) => return Err(self.refused(&error)),
        };
        let body = forward::body(forward, &self.model, salt.as_deref());
        let posted = Posted {
            path: forward.path.as_str(),
            body: body.map_err(|error| self.refused(&error))?,
            prompt: request.prompt.to_vec(),
            refusal: completion::forwarded_refusal,
        };
        self.post(request, posted, |expected| {
            Reader::Forwarded(Box::new(ForwardedAnswer::new(
                forward,
                &self.model,
                expected,
            )))
        })
        .await
    }

    /// Sends a request; `reader` is made of the number of tokens that are expected to be cached.
    async fn post(
        &self,
        request: &GenerateRequest,
        posted: Posted,
        reader: impl FnOnce(u32) -> Reader,
    ) -> Result<TokenStream, LinkError> {
        let pending = self.cache.expect(posted.prompt, request.hash_seed);
        let sent = self.clock.now();
        let id = unique_id(request);
        let sender = Sender {
            request_id: Some(&id),
            trace: request.trace.as_ref(),
        };
        let sending = self
            .server
            .send(Method::POST, posted.path, posted.body, sender);
        let answer = self.wait(sending).await?;
        let status = answer.status();
        if status != StatusCode::OK {
            let message = self
                .wait(async { Ok(read(answer, MOST_ERROR_BYTES).await?) })
                .await
                .unwrap_or_default();
            return Err((posted.refusal)(self.worker(), status, &message));
        }
        let expected = self.cache.expected_tokens(&pending);
        Ok(TokenStream::from_source(HttpChunks {
            body: answer.into_body(),
            reader: reader(expected),
            cache: Arc::clone(&self.cache),
            pending,
            clock: self.clock,
            last_sign: self.last_sign.clone(),
            sent,
            gone: Box::pin(self.gone.clone().cancelled_owned()),
            broken: None,
            begun: false,
            settled: false,
        }))
    }

    async fn reset(&self) -> Result<(), LinkError> {
        let Some(path) = self.dialect.reset_path else {
            return Err(self.unreachable(&HttpError::NoReset(self.dialect.name)));
        };
        let limits = Limits {
            time: self.timing.response_timeout,
            bytes: MOST_ERROR_BYTES,
        };
        let fetching = self.server.fetch(Method::POST, path, limits);
        let (status, message) = self.wait(fetching).await?;
        if status == StatusCode::NOT_FOUND {
            let hint = self.dialect.reset_hint;
            return Err(self.unreachable(&HttpError::ResetMissing { path, hint }));
        }
        if !status.is_success() {
            return Err(completion::refusal(self.worker(), status, &message));
        }
        // An engine with cache events reports this one too, but some only with their next step.
        self.cache.restart();
        Ok(())
    }
}

/// The request's id at the engine. Engines keep requests by id, and the client's is not unique:
/// several prompts share it, and another client may use the same. The client's id comes first,
/// so that the engine's log can be searched for it.
fn unique_id(request: &GenerateRequest) -> String {
    format!("{}-{:016x}", request.id, request.nonce)
}

impl WorkerLink for HttpLink {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(self.start(request))
    }

    fn forwarder(&self) -> Option<&dyn Forwarder> {
        Some(self)
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async {
            if self.gone.is_cancelled() {
                return Err(self.unreachable(&HttpError::Gone));
            }
            Ok(self.cache.snapshot())
        })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(self.reset())
    }
}

impl Forwarder for HttpLink {
    fn forward<'a>(
        &'a self,
        request: &'a GenerateRequest,
        forward: &'a ForwardRequest,
    ) -> LinkFuture<'a, TokenStream> {
        Box::pin(self.start_forwarded(request, forward))
    }

    fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    fn overhear(&self, request: &GenerateRequest, forward: &ForwardRequest) -> Box<dyn Overheard> {
        let pending = self
            .cache
            .expect(request.prompt.to_vec(), request.hash_seed);
        let expected = self.cache.expected_tokens(&pending);
        Box::new(PassingAnswer::new(
            ForwardedAnswer::new(forward, &forward.model, expected),
            Arc::clone(&self.cache),
            pending,
            self.last_sign.clone(),
        ))
    }
}
