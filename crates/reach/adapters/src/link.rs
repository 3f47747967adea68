//! The way to an engine's server.

use std::sync::Arc;

use contract::{Clock, GenerateRequest, KvSnapshot, LinkError, TokenStream, WorkerId};
use http::{Method, StatusCode};
use openai::event_reader::Parser;
use tokio_util::sync::CancellationToken;
use transport::{LinkFuture, WorkerLink};

use crate::completion::{self, Answer};
use crate::holdings::Holdings;
use crate::http::{Server, Unanswered, read};
use crate::retokenize::Tokenize;
use crate::settings::Pace;
use crate::spec::EngineKind;
use crate::stream::HttpChunks;

/// Of an error's text.
const MOST_ERROR_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct HttpLink {
    pub(crate) kind: EngineKind,
    /// The engine's name of the model.
    pub(crate) model: String,
    pub(crate) server: Server,
    pub(crate) holdings: Arc<Holdings>,
    pub(crate) tokenize: Tokenize,
    pub(crate) clock: Clock,
    pub(crate) pace: Pace,
    /// Fires when the engine is gone.
    pub(crate) gone: CancellationToken,
}

impl HttpLink {
    fn worker(&self) -> WorkerId {
        self.holdings.worker()
    }

    fn unreachable(&self, Unanswered(detail): Unanswered) -> LinkError {
        LinkError::Unreachable {
            worker: self.worker(),
            detail,
        }
    }

    /// Waits for an answer, but not for an engine that is gone.
    async fn wait<T>(
        &self,
        answer: impl Future<Output = Result<T, Unanswered>>,
    ) -> Result<T, LinkError> {
        let answer = self.gone.run_until_cancelled(answer).await;
        let answer = answer.unwrap_or_else(|| Err(Unanswered("the engine is gone".to_owned())));
        answer.map_err(|error| self.unreachable(error))
    }

    async fn start(&self, request: GenerateRequest) -> Result<TokenStream, LinkError> {
        let worker = self.worker();
        let asked = completion::body(self.kind, &self.model, &request);
        let (body, prompt) = asked.map_err(|cannot| LinkError::Refused {
            worker,
            detail: cannot.to_string(),
        })?;
        let work = self.holdings.expect(prompt, request.hash_seed);
        let sent = self.clock.now();
        let post = (Method::POST, "/v1/completions");
        let id = own_id(&request);
        let sending = self.server.send(post, body, Some(&id));
        let answer = self.wait(sending).await?;
        let status = answer.status();
        if status != StatusCode::OK {
            let words = self
                .wait(read(answer, MOST_ERROR_BYTES))
                .await
                .unwrap_or_default();
            return Err(completion::refusal(worker, status, &words));
        }
        let expected = self.holdings.expected_tokens(&work);
        let tokenize = self.tokenize.clone();
        Ok(TokenStream::from_source(HttpChunks {
            body: answer.into_body(),
            events: Parser::default(),
            answer: Answer::new(&request.limits, request.logprobs, expected, tokenize),
            holdings: Arc::clone(&self.holdings),
            work,
            clock: self.clock,
            sent,
            gone: Box::pin(self.gone.clone().cancelled_owned()),
            broken: None,
            begun: false,
            settled: false,
        }))
    }

    async fn reset(&self) -> Result<(), LinkError> {
        let path = match self.kind {
            EngineKind::Vllm => "/reset_prefix_cache",
            EngineKind::Sglang => "/flush_cache",
            EngineKind::Trtllm | EngineKind::Openai => {
                let detail = format!("{} cannot be told to forget its cache", self.kind);
                return Err(self.unreachable(Unanswered(detail)));
            }
        };
        let asking = self
            .server
            .ask((Method::POST, path), self.pace.patience, MOST_ERROR_BYTES);
        let (status, words) = self.wait(asking).await?;
        if !status.is_success() {
            return Err(completion::refusal(self.worker(), status, &words));
        }
        // Where the engine tells of its cache, it will tell of this as well.
        if !self.holdings.follows_events() {
            self.holdings.restart();
        }
        Ok(())
    }
}

/// The name under which an engine knows a request. Engines keep requests by name, and the
/// client's is not unique: several prompts share it, and another client may use it too. It
/// stays in front, so that the engine's log can be searched for it.
fn own_id(request: &GenerateRequest) -> String {
    format!("{}-{:016x}", request.id, request.nonce)
}

impl WorkerLink for HttpLink {
    fn generate(&self, request: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(self.start(request))
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async {
            if self.gone.is_cancelled() {
                return Err(self.unreachable(Unanswered("the engine is gone".to_owned())));
            }
            Ok(self.holdings.snapshot())
        })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(self.reset())
    }
}
