//! Examines an engine before it is trusted with traffic: what it is, whether it agrees with the
//! frontend about model and blocks, whether its events and its counts of cached tokens are right.
//!
//! The examination sends the same short prompt twice, with one token of answer each; it changes
//! nothing else. Each finding that is not in order says what would help.

mod events;
mod findings;

use std::time::Duration;

use contract::{HashSeed, TokenId, error_chain};
use http::{Method, StatusCode};
use http_client::bearer;
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::findings::{Finding, Findings, Verdict};
use crate::agreement::{self, SAMPLE_TEXT, Template};
use crate::completion;
use crate::dialect::CacheEvents;
use crate::engine_cache::EngineCache;
use crate::engines::StartError;
use crate::figures::About;
use crate::http::{Limits, Server};
use crate::probe::{DESCRIPTION, MOST_BYTES, Probe, Unhealthy};
use crate::settings::EngineSettings;
use crate::spec::EngineSpec;

/// An answer of one token may wait behind others, and an engine's first one for compilation.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);
/// Full blocks of the prompt that is sent.
const BLOCKS: usize = 3;
/// Where engines name their release, and the field.
const VERSIONS: [(&str, &str); 4] = [
    ("/version", "version"),
    ("/server_info", "version"),
    ("/get_server_info", "version"),
    ("/props", "build_info"),
];

/// Examines one engine; `unique` makes its prompt one that no cache holds.
pub async fn examine(
    spec: &EngineSpec,
    settings: &EngineSettings,
    unique: u64,
) -> Result<Findings, StartError> {
    let key = match &settings.api_key {
        Some(key) => Some(bearer(key).ok_or(StartError::Key)?),
        None => None,
    };
    let doctor = Doctor {
        probe: Probe {
            dialect: spec.kind.dialect(),
            server: Server::new(&spec.url, key),
            patience: settings.timing.response_timeout,
        },
        spec,
        settings,
        findings: Findings::default(),
    };
    Ok(doctor.examine(unique).await)
}

struct Doctor<'a> {
    probe: Probe,
    spec: &'a EngineSpec,
    settings: &'a EngineSettings,
    findings: Findings,
}

/// What an engine says of an answer's prompt.
#[derive(Deserialize)]
struct Answered {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

impl Doctor<'_> {
    async fn examine(mut self, unique: u64) -> Findings {
        if !self.health().await {
            return self.findings;
        }
        let about = match self.allowed().await {
            true => self.probe.about().await,
            false => return self.findings,
        };
        self.version().await;
        let Some(model) = self.model(&about) else {
            return self.findings;
        };
        self.tokenizer(&model).await;
        self.sizes(&about);
        self.endpoints().await;
        self.traffic(&model, unique).await;
        self.findings
    }

    async fn health(&mut self) -> bool {
        let began = self.settings.clock.now();
        match self.probe.healthy().await {
            Ok(()) => {
                let took = (self.settings.clock.now() - began).as_millis();
                self.findings
                    .good("health", format!("answers in {took} ms"));
                true
            }
            Err(error @ Unhealthy::NoResponse(_)) => {
                let help = "start the server, or correct the address in --upstream";
                self.findings.bad("health", error_chain(&error), help);
                false
            }
            Err(error @ Unhealthy::Status(_)) => {
                let help = "see the server's log: it says itself that it cannot serve";
                self.findings.bad("health", error_chain(&error), help);
                false
            }
        }
    }

    /// Whether the server lets us ask.
    async fn allowed(&mut self) -> bool {
        let answer = self.get("/v1/models").await;
        match answer {
            Some((StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _)) => {
                let (found, help) = match self.settings.api_key {
                    None => (
                        "it asks for an API key",
                        "name the environment variable that has it: --upstream-api-key-env NAME",
                    ),
                    Some(_) => (
                        "it refuses the API key",
                        "check the value of the variable in --upstream-api-key-env",
                    ),
                };
                self.findings.bad("API key", found.to_owned(), help);
                false
            }
            Some(_) | None => true,
        }
    }

    async fn version(&mut self) {
        for (path, field) in VERSIONS {
            let Some((StatusCode::OK, body)) = self.get(path).await else {
                continue;
            };
            let value: Option<Value> = serde_json::from_slice(&body).ok();
            let version = value.as_ref().and_then(|value| value.get(field)?.as_str());
            if let Some(version) = version {
                let kind = self.spec.kind;
                self.findings.good("version", format!("{kind} {version}"));
                return;
            }
        }
        self.findings
            .unknown("version", "the server does not say".to_owned(), "");
    }

    fn model(&mut self, about: &About) -> Option<String> {
        let named = self.spec.model.as_deref();
        match agreement::model_name(named, self.settings, about) {
            Ok(name) => {
                let context = match about.max_context_tokens {
                    Some(tokens) => format!("context of {tokens} tokens"),
                    None => "its context is not stated".to_owned(),
                };
                let mut line = format!("{name}, {context}");
                if !about.adapters.is_empty() {
                    line += &format!("; also {}", about.adapters.join(", "));
                }
                self.findings.good("model", line);
                Some(name)
            }
            Err(error) => {
                let help = "write model=NAME with one of its names";
                self.findings.bad("model", error_chain(&error), help);
                None
            }
        }
    }

    async fn tokenizer(&mut self, model: &str) {
        let can = self.probe.tokenizes(model).await;
        let vocabulary = self.probe.check_vocabulary(model, self.settings).await;
        let rare = self.probe.check_tokenizer(model, self.settings).await;
        match (vocabulary, rare) {
            (Err(error), _) => self.findings.bad(
                "tokenizer",
                error_chain(&error),
                "point --model-path to the tokenizer of the model that this server serves",
            ),
            (Ok(()), Err(error)) => self.findings.doubtful(
                "tokenizer",
                error_chain(&error),
                "the vocabulary is the same, but some texts become other tokens: fewer blocks are found again",
            ),
            (Ok(()), Ok(())) if can => {
                let tokens = self.settings.tokenize.tokens(SAMPLE_TEXT).len();
                let line = format!("the same as --model-path ({tokens} tokens compared)");
                self.findings.good("tokenizer", line);
            }
            (Ok(()), Ok(())) => self.findings.unknown(
                "tokenizer",
                "the server has no /tokenize to compare with".to_owned(),
                "",
            ),
        }
        match self.probe.check_template(model, self.settings).await {
            Template::Same => self
                .findings
                .good("chat template", "the same as --model-path".to_owned()),
            Template::Differs => self.findings.doubtful(
                "chat template",
                "the server renders conversations differently".to_owned(),
                "start both with the same template (--chat-template); otherwise forwarded requests are routed by other tokens",
            ),
            Template::Unknown => {
                let line = "the server does not render a conversation for others".to_owned();
                self.findings.unknown("chat template", line, "");
            }
        }
    }

    fn sizes(&mut self, about: &About) {
        let ours = self.settings.blocks.size;
        match about.block_size {
            Some(size) if size == ours => self
                .findings
                .good("block size", format!("{size} tokens")),
            Some(size) if matches!(self.probe.dialect.events, CacheEvents::None) => self
                .findings
                .good("block size", format!("{size} tokens; without events it may differ")),
            Some(size) => self.findings.bad(
                "block size",
                format!("{size} tokens, and {ours} here"),
                &format!("start the frontend with --kv-cache-block-size {size}, or the server with --block-size {ours}"),
            ),
            None => self.findings.unknown(
                "block size",
                format!("not stated; {ours} here"),
                "the first event that shows another one removes the engine",
            ),
        }
        match self.spec.blocks.or(about.blocks) {
            Some(blocks) => self.findings.good("cache", format!("{blocks} blocks")),
            None => self.findings.unknown(
                "cache",
                "its size is not stated".to_owned(),
                "write blocks=N, or the router believes in a usual size",
            ),
        }
        match self.spec.slots.or(about.slots) {
            Some(slots) => self.findings.good("slots", format!("{slots} requests at once")),
            None => self.findings.unknown(
                "slots",
                "not stated".to_owned(),
                "write slots=N as the server has them (vLLM: --max-num-seqs), or the router measures them",
            ),
        }
    }

    async fn endpoints(&mut self) {
        let paths: Vec<&str> = self
            .probe
            .forwards()
            .await
            .into_iter()
            .map(contract::ForwardPath::as_str)
            .collect();
        self.findings.good("forwarding", paths.join(" "));
        let Some(path) = self.probe.dialect.reset_path else {
            let line = "its cache cannot be cleared through its API".to_owned();
            self.findings
                .unknown("reset", line, "restart it between measurements");
            return;
        };
        // Only what the server says of itself: some clear their cache whatever the method.
        let described = match self.get(DESCRIPTION).await {
            Some((StatusCode::OK, body)) => serde_json::from_slice::<Value>(&body).ok(),
            Some(_) | None => None,
        };
        let paths = described.as_ref().and_then(|value| value.get("paths"));
        match paths.map(|paths| paths.get(path).is_some()) {
            Some(true) => self.findings.good("reset", format!("by POST {path}")),
            Some(false) => self.findings.unknown(
                "reset",
                format!("no {path}{}", self.probe.dialect.reset_hint),
                "needed for benchmarks only",
            ),
            None => {
                let line = "the server does not describe its endpoints".to_owned();
                self.findings
                    .unknown("reset", line, "needed for benchmarks only");
            }
        }
    }

    /// Sends one prompt twice and compares what events and usage say.
    async fn traffic(&mut self, model: &str, unique: u64) {
        let prompt = self.prompt(unique);
        let mut ear = self.listen().await;
        let Some(first) = self.answer(model, &prompt).await else {
            return;
        };
        self.counted(&prompt, &first);
        if let Some(ear) = &mut ear {
            let mut cache = EngineCache::new(self.settings.blocks);
            let chain = self.settings.blocks.stored_chain(&prompt, HashSeed::BASE);
            let heard = ear.hear(&mut cache, &chain[..BLOCKS]).await;
            self.findings.extend(heard.findings(BLOCKS));
        }
        let Some(second) = self.answer(model, &prompt).await else {
            return;
        };
        self.cached(&second);
    }

    /// A prompt that nobody has sent before, of some full blocks and a little more.
    fn prompt(&self, unique: u64) -> Vec<TokenId> {
        let length = BLOCKS * self.settings.blocks.size as usize + 5;
        let mut text = format!("Examination {unique}:");
        let mut tokens = Vec::new();
        while tokens.len() < length {
            text += " one and two and three,";
            tokens = self.settings.tokenize.tokens(&text);
        }
        tokens.truncate(length);
        tokens
    }

    async fn listen(&mut self) -> Option<events::Ear> {
        let decode = match self.probe.dialect.events {
            CacheEvents::Published { decode } => decode,
            CacheEvents::Polled { path, .. } => {
                let line = format!("read from {path} while it serves");
                self.findings.unknown("events", line, "");
                return None;
            }
            CacheEvents::None => {
                let line = "this kind of server has none: its cache is estimated".to_owned();
                self.findings.unknown("events", line, "");
                return None;
            }
        };
        let Some(address) = &self.spec.events else {
            self.findings.doubtful(
                "events",
                "events= is not given: its cache is estimated".to_owned(),
                "start vLLM with --kv-events-config '{\"enable_kv_cache_events\": true, \"publisher\": \"zmq\", \"endpoint\": \"tcp://*:5557\", \"replay_endpoint\": \"tcp://*:5558\"}' and add events=tcp://HOST:5557,replay=tcp://HOST:5558",
            );
            return None;
        };
        match events::Ear::open(address, &self.spec.topic, decode, self.probe.patience).await {
            Ok(ear) => {
                self.replay().await;
                Some(ear)
            }
            Err(error) => {
                self.findings.bad(
                    "events",
                    format!("{address}: {error}"),
                    "vLLM listens only where its endpoint begins with tcp://*: compare --kv-events-config with events=",
                );
                None
            }
        }
    }

    async fn replay(&mut self) {
        let Some(address) = &self.spec.replay else {
            self.findings.doubtful(
                "replay",
                "replay= is not given: after a restart of the frontend the cache is unknown, and a lost event forgets it".to_owned(),
                "add \"replay_endpoint\": \"tcp://*:5558\" to --kv-events-config and replay=tcp://HOST:5558",
            );
            return;
        };
        match events::replayable(address, self.probe.patience).await {
            Ok(batches) => self
                .findings
                .good("replay", format!("{batches} batches are kept")),
            Err(error) => self.findings.bad(
                "replay",
                format!("{address}: {error}"),
                "compare replay_endpoint in --kv-events-config with replay=",
            ),
        }
    }

    async fn answer(&mut self, model: &str, prompt: &[TokenId]) -> Option<Answered> {
        let body = json!({ "model": model, "prompt": prompt, "max_tokens": 1, "temperature": 0 });
        let body = serde_json::to_vec(&body).expect("numbers can be written");
        let limits = Limits {
            time: ANSWER_PATIENCE,
            bytes: MOST_BYTES,
        };
        let asked = self
            .probe
            .server
            .ask(Method::POST, completion::PATH, body, limits)
            .await;
        let help = "a prompt of token ids must be answered: see the server's log";
        let (status, answer) = match asked {
            Ok(answer) => answer,
            Err(error) => {
                self.findings.bad("answer", error_chain(&error), help);
                return None;
            }
        };
        if status != StatusCode::OK {
            let words = String::from_utf8_lossy(&answer);
            let words: String = words.chars().take(200).collect();
            let found = format!("status {status}: {words}");
            self.findings.bad("answer", found, help);
            return None;
        }
        match serde_json::from_slice(&answer) {
            Ok(answered) => Some(answered),
            Err(error) => {
                self.findings.bad("answer", error.to_string(), help);
                None
            }
        }
    }

    fn counted(&mut self, prompt: &[TokenId], answered: &Answered) {
        let count = answered
            .usage
            .as_ref()
            .and_then(|usage| usage.prompt_tokens);
        let sent = prompt.len();
        match count {
            Some(count) if count == sent as u64 => self
                .findings
                .good("prompt", format!("{sent} tokens sent and counted")),
            Some(count) => self.findings.bad(
                "prompt",
                format!("{sent} tokens sent, and the server counts {count}"),
                "the server changes the prompt, so the router would know other blocks than it has",
            ),
            None => {
                let line = "the server does not count prompt tokens".to_owned();
                self.findings.unknown("prompt", line, "");
            }
        }
    }

    fn cached(&mut self, answered: &Answered) {
        let expected = (BLOCKS * self.settings.blocks.size as usize) as u64;
        let details = answered
            .usage
            .as_ref()
            .and_then(|usage| usage.prompt_tokens_details.as_ref());
        match details.and_then(|details| details.cached_tokens) {
            Some(cached) if cached.abs_diff(expected) < u64::from(self.settings.blocks.size) => self
                .findings
                .good("cached tokens", format!("{cached} of the same prompt, as expected")),
            Some(0) => self.findings.bad(
                "cached tokens",
                "none of the same prompt".to_owned(),
                "switch prefix caching on (vLLM: --enable-prefix-caching): there is nothing to route by",
            ),
            Some(cached) => self.findings.doubtful(
                "cached tokens",
                format!("{cached} of the same prompt, and {expected} were expected"),
                "another block size, or other requests took the memory meanwhile: repeat on an idle server",
            ),
            None => self.findings.doubtful(
                "cached tokens",
                "the server does not report them: predictions cannot be checked".to_owned(),
                "start vLLM with --enable-prompt-tokens-details",
            ),
        }
    }

    async fn get(&self, path: &str) -> Option<(StatusCode, bytes::Bytes)> {
        let limits = Limits {
            time: self.probe.patience,
            bytes: MOST_BYTES,
        };
        self.probe
            .server
            .fetch(Method::GET, path, limits)
            .await
            .ok()
    }
}
