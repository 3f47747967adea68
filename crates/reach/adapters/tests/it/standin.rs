//! Servers that behave like engines, as far as this crate looks at them: completions with
//! tokens in and out, a prefix cache, events, metrics, and moods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use adapters::EngineKind;
use axum::Json;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use preprocess::{PreprocessConfig, Preprocessor};
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;

use crate::cache::{Cache, Told};
use crate::publisher::Publisher;

/// How an engine feels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Well,
    /// Refuses requests with this status.
    Refusing(u16),
    /// Breaks the connection after so many tokens.
    DyingAfter(usize),
    /// Fails its health check.
    Ill,
    /// Takes connections and does not answer health checks.
    Silent,
}

/// What it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Build {
    pub(crate) kind: EngineKind,
    pub(crate) block_size: usize,
    pub(crate) blocks: usize,
    /// Says how many tokens were cached.
    pub(crate) reports_cached: bool,
    /// Says how long its blocks are.
    pub(crate) says_block_size: bool,
    /// Knows `return_token_ids`.
    pub(crate) gives_ids: bool,
    /// What it has at `/tokenize`.
    pub(crate) tokenizer: EngineTokenizer,
    /// Reports drafts.
    pub(crate) drafts: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum EngineTokenizer {
    None,
    Ours,
    Another,
}

impl Build {
    pub(crate) fn new(kind: EngineKind) -> Self {
        Self {
            kind,
            block_size: 32,
            blocks: 1000,
            reports_cached: true,
            says_block_size: true,
            gives_ids: kind != EngineKind::Openai,
            tokenizer: EngineTokenizer::None,
            drafts: false,
        }
    }
}

/// One request as the engine saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) prompt: Vec<u32>,
    pub(crate) cached: usize,
}

pub(crate) struct Inner {
    build: Build,
    pub(crate) mood: Mood,
    cache: Cache,
    pub(crate) publisher: Option<Publisher>,
    /// For TensorRT-LLM: events until somebody asks.
    untold: Vec<Value>,
    pub(crate) next_event: u64,
    pub(crate) seen: Vec<Seen>,
    /// Health checks so far.
    pub(crate) checked: u64,
    /// The tokens of [`TEXT`].
    vocabulary: Vec<u32>,
}

pub(crate) type Shared = Arc<Mutex<Inner>>;

pub(crate) struct StandIn {
    pub(crate) url: String,
    pub(crate) shared: Shared,
    build: Build,
    _tasks: TaskTracker,
}

/// What every engine says, over and over. Each piece is one token.
pub(crate) const TEXT: [&str; 7] = [" The", " quick", " brown", " fox", " jumps", ",", " again"];

impl StandIn {
    pub(crate) async fn start(build: Build) -> Self {
        let tasks = TaskTracker::new();
        let publisher = match build.kind {
            EngineKind::Vllm | EngineKind::Sglang => {
                Some(Publisher::bind(build.kind, build.block_size, &tasks).await)
            }
            EngineKind::Trtllm | EngineKind::Openai => None,
        };
        let shared = Arc::new(Mutex::new(Inner {
            build,
            mood: Mood::Well,
            cache: Cache::new(build.block_size, build.blocks),
            publisher,
            untold: Vec::new(),
            next_event: 0,
            seen: Vec::new(),
            checked: 0,
            vocabulary: vocabulary(),
        }));
        let routes = Router::new()
            .route("/health", get(health))
            .route("/v1/models", get(models))
            .route("/tokenize", post(tokenize))
            .route("/metrics", get(metrics))
            .route("/server_info", get(server_info))
            .route("/kv_cache_events", post(kv_cache_events))
            .route("/reset_prefix_cache", post(reset))
            .route("/flush_cache", post(reset))
            .route("/v1/completions", post(completions))
            .route("/v1/chat/completions", post(chat))
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tasks.spawn(async move { axum::serve(listener, routes).await });
        Self {
            url,
            shared,
            build,
            _tasks: tasks,
        }
    }

    /// What a person would write to name it, with its events and its replay.
    pub(crate) fn spec(&self, more: &str) -> String {
        let inner = self.shared.lock();
        let events = inner
            .publisher
            .as_ref()
            .map_or_else(String::new, |publisher| {
                format!(",events={},replay={}", publisher.events, publisher.replay)
            });
        format!("{}={}{events}{more}", self.build.kind, self.url)
    }

    /// The same without replay.
    pub(crate) fn spec_without_replay(&self, more: &str) -> String {
        let spec = self.spec(more);
        let parts = spec.split(',').filter(|part| !part.starts_with("replay="));
        parts.collect::<Vec<_>>().join(",")
    }

    pub(crate) fn feels(&self, mood: Mood) {
        self.shared.lock().mood = mood;
    }

    /// Of the batches to come, those with these numbers will not be published; the next is 0.
    pub(crate) fn loses(&self, soon: impl IntoIterator<Item = u64>) {
        let inner = self.shared.lock();
        let publisher = inner.publisher.as_ref().unwrap();
        let numbers = soon.into_iter().map(|soon| publisher.next + soon);
        publisher.mishaps.lock().unpublished = BTreeSet::from_iter(numbers);
    }

    /// So many batches are kept for replay.
    pub(crate) fn keeps(&self, batches: usize) {
        self.shared
            .lock()
            .publisher
            .as_ref()
            .unwrap()
            .mishaps
            .lock()
            .kept = batches;
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    pub(crate) fn last(&self) -> Seen {
        self.seen().pop().unwrap()
    }

    /// Starts again, unnoticed: its cache is empty and its batches count from 0.
    pub(crate) fn begins_anew(&self) {
        let mut inner = self.shared.lock();
        inner.cache.clear();
        inner.publisher.as_mut().unwrap().begin_anew();
    }

    /// A request that came to the engine by another way.
    pub(crate) fn works_on(&self, tokens: &[u32]) {
        self.shared.lock().keep(tokens, None);
    }
}

fn vocabulary() -> Vec<u32> {
    let preprocessor = Preprocessor::embedded(PreprocessConfig::default());
    let tokens = TEXT.map(|piece| preprocessor.encode_plain(piece).unwrap());
    assert!(tokens.iter().all(|tokens| tokens.len() == 1));
    tokens.concat()
}

impl Inner {
    fn keep(&mut self, tokens: &[u32], salt: Option<&str>) {
        let told = self.cache.keep(tokens, salt);
        self.tell(&told);
    }

    fn tell(&mut self, told: &[Told]) {
        if let Some(publisher) = &mut self.publisher {
            publisher.tell(told);
        } else if self.build.kind == EngineKind::Trtllm {
            for told in told {
                let data = trtllm_event(told, self.build.block_size);
                self.untold
                    .push(json!({"event_id": self.next_event, "data": data, "window_size": 4096}));
                self.next_event += 1;
            }
        }
    }
}

fn trtllm_event(told: &Told, block_size: usize) -> Value {
    match told {
        Told::Stored {
            parent,
            hashes,
            tokens,
            ..
        } => {
            let blocks = hashes.iter().zip(tokens.chunks(block_size)).map(|(hash, tokens)| {
                let token = |token: &u32| json!({"type": "unique_token", "token_id": token, "token_extra_id": 0});
                let tokens: Vec<Value> = tokens.iter().map(token).collect();
                json!({"type": "stored_block", "block_hash": hash, "tokens": tokens, "cache_level": 0, "priority": 35})
            });
            let blocks: Vec<Value> = blocks.collect();
            json!({"type": "stored", "parent_hash": parent, "blocks": blocks})
        }
        Told::Removed(hashes) => json!({"type": "removed", "block_hashes": hashes}),
        Told::Cleared => json!({"type": "created", "num_blocks_per_cache_level": [1, 0]}),
    }
}

async fn health(State(shared): State<Shared>) -> StatusCode {
    let mood = {
        let mut inner = shared.lock();
        inner.checked += 1;
        inner.mood
    };
    match mood {
        Mood::Ill => StatusCode::INTERNAL_SERVER_ERROR,
        Mood::Well | Mood::Refusing(_) | Mood::DyingAfter(_) => StatusCode::OK,
        Mood::Silent => std::future::pending().await,
    }
}

async fn tokenize(State(shared): State<Shared>, body: Bytes) -> Response {
    let tokenizer = shared.lock().build.tokenizer;
    let body: Value = serde_json::from_slice(&body).unwrap();
    let text = body["prompt"].as_str().unwrap();
    let preprocessor = Preprocessor::embedded(PreprocessConfig::default());
    let mut tokens = preprocessor.encode_plain(text).unwrap();
    match tokenizer {
        EngineTokenizer::None => return StatusCode::NOT_FOUND.into_response(),
        EngineTokenizer::Ours => {}
        EngineTokenizer::Another => tokens[3] += 1,
    }
    Json(json!({"count": tokens.len(), "max_model_len": 4096, "tokens": tokens})).into_response()
}

async fn models() -> Json<Value> {
    Json(
        json!({"object": "list", "data": [{"id": "org/model", "object": "model", "max_model_len": 131_072}]}),
    )
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let Inner { build, .. } = *shared.lock();
    let (size, blocks) = (build.block_size, build.blocks);
    match build.kind {
        EngineKind::Vllm => {
            let config = format!(
                "vllm:cache_config_info{{block_size=\"{size}\",num_gpu_blocks=\"{blocks}\"}} 1.0\n"
            );
            let config = if build.says_block_size {
                config
            } else {
                String::new()
            };
            let drafts = match build.drafts {
                true => {
                    "vllm:spec_decode_num_drafts_total{engine=\"0\"} 100.0\n\
                     vllm:spec_decode_num_draft_tokens_total{engine=\"0\"} 300.0\n\
                     vllm:spec_decode_num_accepted_tokens_total{engine=\"0\"} 150.0\n"
                }
                false => "",
            };
            format!(
                "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{engine=\"0\"}} 2.0\n\
                 vllm:num_requests_waiting{{engine=\"0\"}} 1.0\nvllm:kv_cache_usage_perc{{engine=\"0\"}} 0.5\n{config}{drafts}"
            )
            .into_response()
        }
        EngineKind::Sglang => {
            "sglang:num_running_reqs 2\nsglang:num_queue_reqs 1\nsglang:token_usage 0.5\n"
                .into_response()
        }
        EngineKind::Trtllm => {
            let cache = json!({"usedNumBlocks": blocks / 2, "maxNumBlocks": blocks, "tokensPerBlock": size});
            let mut step =
                json!({"numActiveRequests": 2, "numQueuedRequests": 1, "kvCacheStats": cache});
            if build.drafts {
                step["iter"] = json!(9);
                step["specDecodingStats"] = json!({"numDraftTokens": 300, "numAcceptedTokens": 150, "numRequestsWithDraftTokens": 100});
            }
            Json(json!([step])).into_response()
        }
        EngineKind::Openai => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn server_info(State(shared): State<Shared>) -> Response {
    let Inner { build, .. } = *shared.lock();
    if build.kind != EngineKind::Sglang {
        return StatusCode::NOT_FOUND.into_response();
    }
    let tokens = build.blocks * build.block_size;
    let info = json!({"page_size": build.block_size, "max_total_num_tokens": tokens, "max_running_requests": 48});
    Json(info).into_response()
}

async fn kv_cache_events(State(shared): State<Shared>) -> Response {
    let mut inner = shared.lock();
    if inner.build.kind != EngineKind::Trtllm {
        return StatusCode::NOT_FOUND.into_response();
    }
    Json(std::mem::take(&mut inner.untold)).into_response()
}

async fn reset(State(shared): State<Shared>) -> StatusCode {
    let mut inner = shared.lock();
    let told = inner.cache.clear();
    inner.tell(&[told]);
    StatusCode::OK
}

/// Fields that are OpenAI's.
const PLAIN: [&str; 10] = [
    "model",
    "prompt",
    "max_tokens",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "seed",
    "logprobs",
    "user",
];
/// Fields that TensorRT-LLM has beyond them. It refuses what it does not know.
const TRTLLM: [&str; 5] = [
    "top_k",
    "min_tokens",
    "ignore_eos",
    "stop_token_ids",
    "detokenize",
];

fn refusal(build: Build, mood: Mood, body: &Value) -> Option<Response> {
    let error = |status: u16, message: &str| {
        let body =
            json!({"error": {"message": message, "type": "BadRequestError", "code": status}});
        (StatusCode::from_u16(status).unwrap(), Json(body)).into_response()
    };
    if let Mood::Refusing(status) = mood {
        return Some(error(status, "maximum context length or capacity exceeded"));
    }
    let strict = matches!(build.kind, EngineKind::Trtllm | EngineKind::Openai);
    let known = |name: &str| {
        let extra = build.kind == EngineKind::Trtllm && TRTLLM.contains(&name);
        PLAIN.contains(&name) || extra
    };
    let unknown = body.as_object()?.keys().find(|name| strict && !known(name));
    unknown.map(|name| error(400, &format!("extra field {name}")))
}

async fn completions(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let prompt: Vec<u32> = serde_json::from_value(body["prompt"].clone()).unwrap();
    let salt = body["cache_salt"].as_str().map(str::to_owned);
    let (build, mood, cached, vocabulary) = {
        let mut inner = shared.lock();
        let cached = inner.cache.cached(&prompt, salt.as_deref());
        let (build, mood) = (inner.build, inner.mood);
        if let Some(refusal) = refusal(build, mood, &body) {
            return refusal;
        }
        inner.seen.push(Seen {
            headers,
            body: body.clone(),
            prompt: prompt.clone(),
            cached,
        });
        (build, mood, cached, inner.vocabulary.clone())
    };
    let most = body["max_tokens"].as_u64().unwrap() as usize;
    let answer: Vec<u32> = vocabulary.into_iter().cycle().take(most).collect();
    let survives = match mood {
        Mood::DyingAfter(tokens) => tokens,
        Mood::Well | Mood::Refusing(_) | Mood::Ill | Mood::Silent => usize::MAX,
    };
    let mut events: Vec<Result<String, std::io::Error>> = Vec::new();
    for (at, token) in answer.iter().enumerate().take(survives) {
        let last = at + 1 == answer.len();
        events.push(Ok(event(build, &body, *token, at, last)));
    }
    if survives < answer.len() {
        events.push(Err(std::io::Error::other("died")));
    } else {
        let details = build
            .reports_cached
            .then(|| json!({"cached_tokens": cached}));
        // SGLang leaves the details out where nothing was cached.
        let details = details.filter(|_| cached > 0 || build.kind != EngineKind::Sglang);
        let usage = json!({"prompt_tokens": prompt.len(), "completion_tokens": answer.len(),
            "total_tokens": prompt.len() + answer.len(), "prompt_tokens_details": details});
        events.push(Ok(
            json!({"object": "text_completion", "choices": [], "usage": usage}).to_string(),
        ));
        events.push(Ok("[DONE]".to_owned()));
        // The last token's KV is never computed.
        let whole = [&prompt[..], &answer[..answer.len() - 1]].concat();
        shared.lock().keep(&whole, salt.as_deref());
    }
    streamed(events)
}

/// Events as they are sent; an error breaks the connection.
fn streamed(events: Vec<Result<String, std::io::Error>>) -> Response {
    let stream = events
        .into_iter()
        .map(|event| event.map(|data| format!("data: {data}\n\n")));
    // What was said before the end is on its way by then.
    let stream = futures_util::stream::iter(stream).then(async |event| {
        if event.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        event
    });
    let body = Body::from_stream(stream);
    ([("content-type", "text/event-stream")], body).into_response()
}

/// The engine's own server: it has seen the client's body, and writes the answer itself.
async fn chat(State(shared): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap();
    let mood = {
        let mut inner = shared.lock();
        if let Mood::Refusing(_) = inner.mood {
            return refusal(inner.build, inner.mood, &body).unwrap();
        }
        inner.seen.push(Seen {
            headers,
            body: body.clone(),
            prompt: Vec::new(),
            cached: 0,
        });
        inner.mood
    };
    let usage = json!({"prompt_tokens": 40, "completion_tokens": TEXT.len(),
        "prompt_tokens_details": {"cached_tokens": 32}});
    if body["stream"] != json!(true) {
        let choice = json!({"message": {"role": "assistant", "content": TEXT.concat()}});
        let answer =
            json!({"id": "own", "model": body["model"], "choices": [choice], "usage": usage});
        return Json(answer).into_response();
    }
    let event =
        |choices: Value| Ok(json!({"model": body["model"], "choices": choices}).to_string());
    let mut events: Vec<Result<String, std::io::Error>> = vec![event(
        json!([{"delta": {"role": "assistant", "content": ""}}]),
    )];
    let deltas = TEXT.map(|text| event(json!([{"delta": {"content": text}}])));
    match mood {
        Mood::DyingAfter(tokens) => {
            events.extend(deltas.into_iter().take(tokens));
            events.push(Err(std::io::Error::other("died")));
        }
        Mood::Well | Mood::Refusing(_) | Mood::Ill | Mood::Silent => {
            events.extend(deltas);
            events.push(event(json!([{"delta": {}, "finish_reason": "stop"}])));
            events.push(Ok(json!({"choices": [], "usage": usage}).to_string()));
            events.push(Ok("[DONE]".to_owned()));
        }
    }
    streamed(events)
}

/// One token of an answer, as this kind of engine says it.
fn event(build: Build, body: &Value, token: u32, at: usize, last: bool) -> String {
    let finish = last.then_some("length");
    let mut choice = json!({"index": 0, "text": TEXT[at % TEXT.len()], "logprobs": null, "finish_reason": finish});
    let wants_ids = match build.kind {
        EngineKind::Vllm | EngineKind::Sglang => body["return_token_ids"] == json!(true),
        EngineKind::Trtllm => body["detokenize"] == json!(false),
        EngineKind::Openai => false,
    };
    if wants_ids && build.gives_ids {
        choice["token_ids"] = json!([token]);
    }
    if build.kind == EngineKind::Trtllm {
        choice["text"] = json!("");
    }
    json!({"id": "cmpl-1", "object": "text_completion", "model": "org/model", "choices": [choice]})
        .to_string()
}
