//! Options that several commands have in common.

use std::path::{Path, PathBuf};
use std::time::Duration;

use answer_parser::{ReasoningFormat, ToolFormat};
use anyhow::bail;
use clap::{Args, ValueEnum};
use contract::{BlockFormat, Visitors};
use frontend::{Connections, ForwardMode, Listening, StoreLimits, UnknownFields};
use router::{BlockWeights, MODES, Mode, ModeName, RouterConfig};

use super::seconds;
use crate::https::HttpsFiles;
use crate::open_files;

/// The model that is served.
#[derive(Clone, Debug, Args)]
pub(crate) struct ModelArgs {
    /// Name under which the model is served; by default a GGUF file's own, or the profile's
    #[arg(long, help_heading = "Model")]
    pub(crate) model_name: Option<String>,
    /// Folder with tokenizer.json and chat template; by default an embedded vocabulary
    ///
    /// A real engine reads the weights from it as well, and takes a GGUF file instead.
    #[arg(long, value_name = "DIR", help_heading = "Model")]
    pub(crate) model_path: Option<PathBuf>,
    /// Model for a real engine: a name from `homing model list`, a path, or OWNER/NAME
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// Parse special tokens in message content as tokens instead of text
    ///
    /// Unsafe with untrusted input: a message can then end itself and forge others in any role.
    #[arg(long, help_heading = "Model")]
    pub(crate) parse_special_tokens_in_content: bool,
    /// Jinja file with a chat template instead of the model's own
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub(crate) chat_template: Option<PathBuf>,
    /// How the model writes tool calls: hermes, llama3, mistral, pythonic; by default its chat template decides
    #[arg(long, value_parser = tool_format, value_name = "FORMAT", help_heading = "Model")]
    pub(crate) tool_call_parser: Option<ToolFormat>,
    /// How the model marks its reasoning: think; by default its chat template decides
    #[arg(long, value_parser = reasoning_format, value_name = "FORMAT", help_heading = "Model")]
    pub(crate) reasoning_parser: Option<ReasoningFormat>,
    /// Size of the tokenizer's cache, in bytes
    #[arg(long, default_value_t = 64 << 20, help_heading = "Model")]
    pub(crate) tokenizer_cache_bytes: usize,
}

impl ModelArgs {
    /// Nothing but where the model is.
    pub(crate) fn of_path(path: &Path) -> Self {
        Self {
            model_name: None,
            model_path: Some(path.to_owned()),
            model: None,
            parse_special_tokens_in_content: false,
            chat_template: None,
            tool_call_parser: None,
            reasoning_parser: None,
            tokenizer_cache_bytes: 0,
        }
    }
}

fn tool_format(name: &str) -> Result<ToolFormat, FormatError> {
    ToolFormat::named(name).ok_or_else(|| FormatError::new(ToolFormat::ALL.map(ToolFormat::as_str)))
}

fn reasoning_format(name: &str) -> Result<ReasoningFormat, FormatError> {
    let names = ReasoningFormat::ALL.map(ReasoningFormat::as_str);
    ReasoningFormat::named(name).ok_or_else(|| FormatError::new(names))
}

/// A format that nobody knows.
#[derive(Debug, thiserror::Error)]
#[error("expected one of {0}")]
struct FormatError(String);

impl FormatError {
    fn new<const N: usize>(names: [&str; N]) -> Self {
        Self(names.join(", "))
    }
}

/// What happens to fields of a request that are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum UnknownFieldsChoice {
    Refuse,
    Ignore,
    Forward,
}

impl From<UnknownFieldsChoice> for UnknownFields {
    fn from(choice: UnknownFieldsChoice) -> Self {
        match choice {
            // What is to be forwarded is refused by whoever cannot.
            UnknownFieldsChoice::Refuse | UnknownFieldsChoice::Forward => Self::Refuse,
            UnknownFieldsChoice::Ignore => Self::Ignore,
        }
    }
}

/// When requests go to the server of a worker's own engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForwardChoice {
    Auto,
    Always,
    Never,
}

impl From<ForwardChoice> for ForwardMode {
    fn from(choice: ForwardChoice) -> Self {
        match choice {
            ForwardChoice::Auto => Self::Auto,
            ForwardChoice::Always => Self::Always,
            ForwardChoice::Never => Self::Never,
        }
    }
}

/// The engine that computes answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineChoice {
    Simulated,
    Llama,
    Cuda,
}

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheDtypeChoice {
    Auto,
    Fp8,
    Bf16,
}

/// How weights are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WeightDtypeChoice {
    Auto,
    Bf16,
    Fp8,
}

/// How draft tokens are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpeculationChoice {
    None,
    Ngram,
    Draft,
    Eagle3,
}

/// A real engine instead of the simulator.
#[derive(Clone, Debug, Args)]
pub(crate) struct EngineArgs {
    /// Engine: simulated, llama (a real model on this machine's CPU), or cuda (on its NVIDIA GPU)
    #[arg(long, value_enum, default_value_t = EngineChoice::Simulated, hide_possible_values = true, help_heading = "Engine")]
    pub(crate) engine: EngineChoice,
    /// Threads per worker; by default the machine's, divided among the workers (llama)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Engine")]
    pub(crate) threads: Option<u32>,
    /// Sequences that a worker computes concurrently; by default 8 (llama) or 64 (cuda)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Engine")]
    pub(crate) slots: Option<u32>,
    /// KV cache memory per worker, in MiB; by default 1024 (llama), or what is free (cuda)
    #[arg(long, help_heading = "Engine")]
    pub(crate) kv_cache_mb: Option<usize>,
    /// Longest prompt plus answer; by default the model's, at most 8192 (llama, cuda)
    #[arg(long, help_heading = "Engine")]
    pub(crate) context: Option<usize>,
    /// Most tokens per step, by default 256 (llama) or 8192 (cuda); longer prompts take several steps
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1 << 20), help_heading = "Engine")]
    pub(crate) max_step_tokens: Option<u32>,
    /// Which GPU, as the driver counts them (cuda)
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub(crate) gpu: Option<usize>,
    /// How keys and values are stored: auto, fp8, bf16; auto is bf16, the fast attention kernels need fp8 (cuda)
    #[arg(long, value_enum, default_value_t = CacheDtypeChoice::Auto, hide_possible_values = true, value_name = "DTYPE", help_heading = "Engine")]
    pub(crate) kv_cache_dtype: CacheDtypeChoice,
    /// How weights are stored: auto, bf16, fp8; auto is fp8 for a checkpoint in FP8, else bf16 (cuda)
    ///
    /// fp8 rounds a model's weights when it is loaded, each output of a matrix by its own scale. They
    /// take half the memory, and the answers differ slightly. Weights that the files have in FP8 stay as they are, with
    /// their own scales.
    #[arg(long, value_enum, default_value_t = WeightDtypeChoice::Auto, hide_possible_values = true, value_name = "DTYPE", help_heading = "Engine")]
    pub(crate) weight_dtype: WeightDtypeChoice,
    /// Random weights of the shape in config.json, for measuring; answers mean nothing (cuda)
    #[arg(long, help_heading = "Engine")]
    pub(crate) random_weights: bool,
    /// Folder with libcublasLt.so.13, where it is not found by itself (cuda)
    #[arg(long, value_name = "DIR", help_heading = "Engine")]
    pub(crate) cuda_libraries: Option<PathBuf>,
    /// Speculative decoding: none, ngram (llama, cuda), draft, eagle3 (llama)
    ///
    /// ngram drafts what followed the same tokens earlier in the text; draft uses a smaller model
    /// with the same vocabulary, eagle3 a head that was trained for the model. Answers are the same
    /// with and without speculation.
    #[arg(long, value_enum, default_value_t = SpeculationChoice::None, hide_possible_values = true, help_heading = "Engine")]
    pub(crate) speculation: SpeculationChoice,
    /// The smaller model (draft) or the head's folder (eagle3): a name or a path, as --model
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub(crate) draft_model: Option<String>,
    /// Most draft tokens per step; fewer are drafted where more do not pay (llama, cuda)
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=16), help_heading = "Engine")]
    pub(crate) draft_tokens: u32,
}

/// How requests are routed.
#[derive(Clone, Debug, Args)]
pub(crate) struct RoutingArgs {
    #[arg(
        long,
        default_value_t = ModeName::Kv,
        help = mode_help(),
        long_help = mode_long_help(),
        help_heading = "Routing"
    )]
    pub(crate) router_mode: ModeName,
    /// What an uncached block costs, in blocks of decode load (kv-blocks)
    #[arg(long, default_value_t = 1.0, help_heading = "Routing")]
    pub(crate) overlap_score_weight: f64,
    /// 0 takes the cheapest worker; above 0 draws by softmax (kv-blocks)
    #[arg(long, default_value_t = 0.0, help_heading = "Routing")]
    pub(crate) router_temperature: f64,
    /// Requests that may wait for each worker beyond its batch slots before clients get 429
    #[arg(long, default_value_t = 256, help_heading = "Routing")]
    pub(crate) queue_limit: u32,
    /// Longest time that a request waits for a worker, in seconds; then it gets 429 (kv)
    ///
    /// A request that would have to wait longer gets 429 immediately. The header
    /// `x-request-timeout-ms` can lower this limit but not raise it. Only time in the router's
    /// queue counts, summed over all of a request's waits; computing and reading do not.
    #[arg(long, default_value = "300", value_parser = seconds, value_name = "SECONDS", help_heading = "Routing")]
    pub(crate) max_queue_wait: Duration,
    /// Honour `x-request-priority` from clients whose API key has no `priority`
    ///
    /// By default, only a key with a `priority` in --api-key-file may raise a request's priority.
    /// Every client may lower it.
    #[arg(long, help_heading = "Routing")]
    pub(crate) trust_priority_header: bool,
    /// Routing decisions kept for GET /decisions
    #[arg(long, default_value_t = 1000, help_heading = "Routing")]
    pub(crate) decision_log: usize,
}

impl LimitArgs {
    pub(crate) fn stored(&self) -> StoreLimits {
        StoreLimits {
            entries: self.stored_responses,
            bytes: self.stored_responses_bytes,
        }
    }
}

/// Limits of the server.
#[derive(Clone, Debug, Args)]
pub(crate) struct LimitArgs {
    /// Most requests held at once, in any state
    #[arg(long, default_value_t = 16_384, help_heading = "Limits")]
    pub(crate) max_requests: usize,
    /// What to do with fields of a request that are unknown: refuse, ignore, forward
    ///
    /// forward sends such a request to the engine's own server, where it has one (vLLM, SGLang,
    /// TensorRT-LLM, llama.cpp), and refuses it elsewhere. Fields that are known but not supported
    /// (docs/request-fields.md) are forwarded to such an engine in any case, and refused elsewhere.
    #[arg(long, value_enum, default_value_t = UnknownFieldsChoice::Refuse, value_name = "ACTION", hide_possible_values = true, help_heading = "Limits")]
    pub(crate) unknown_fields: UnknownFieldsChoice,
    /// Keep the line that coding agents change with every request at the head of the system prompt
    ///
    /// By default a line `x-anthropic-billing-header: …` there is removed: it makes each request's
    /// prefix new, so nothing of it is found in any cache. The answer's header
    /// x-homing-normalized says so.
    #[arg(long, help_heading = "Limits")]
    pub(crate) keep_agent_headers: bool,
    /// Most responses kept for requests with `previous_response_id`; 0 for none
    #[arg(
        long,
        default_value_t = 10_000,
        value_name = "N",
        help_heading = "Limits"
    )]
    pub(crate) stored_responses: usize,
    /// Most bytes of responses kept
    #[arg(long, default_value_t = 64 << 20, value_name = "BYTES", help_heading = "Limits")]
    pub(crate) stored_responses_bytes: usize,
    /// Largest request body
    #[arg(long, default_value_t = 16 << 20, help_heading = "Limits")]
    pub(crate) max_body_bytes: usize,
    /// Most bytes of large request bodies held at once, while they are read and prepared
    ///
    /// Further bodies get 429. Never less than --max-body-bytes.
    #[arg(long, default_value_t = 32 << 20, value_name = "BYTES", help_heading = "Limits")]
    pub(crate) max_buffered_bytes: usize,
    /// Most connections; by default what the limit of open files allows, at most 65536
    ///
    /// At the limit, a new connection replaces the one that has been idle longest. If none is idle,
    /// new connections are served only /live, /health, /ready and /metrics.
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Limits")]
    pub(crate) max_connections: Option<usize>,
    /// Longest time for a request's header, and longest pause in its body, in seconds
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) read_timeout: Duration,
    /// Idle time after which a connection is closed, in seconds
    #[arg(long, default_value = "120", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) idle_timeout: Duration,
    /// Lag of a slow client after which its answer is cancelled, in seconds
    ///
    /// The slot is freed as soon as the worker is done, however slowly the client reads.
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) slow_reader_timeout: Duration,
    /// Time for running streams to finish after SIGTERM, in seconds
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) shutdown_grace: Duration,
}

impl LimitArgs {
    /// Limits and timeouts of every listener of the process.
    pub(crate) fn listening(&self, visitors: Visitors) -> Listening {
        let connections = self.max_connections;
        Listening {
            patience: self.slow_reader_timeout,
            read_timeout: self.read_timeout,
            idle_timeout: self.idle_timeout,
            visitors,
            tls: None,
            connections: Connections::new(connections.unwrap_or_else(open_files::connections)),
        }
    }
}

fn at_least_one(text: &str) -> anyhow::Result<usize> {
    match text.parse() {
        Ok(0) => bail!("must be at least 1"),
        Ok(number) => Ok(number),
        Err(_) => bail!("expected a whole number"),
    }
}

/// HTTPS instead of HTTP.
#[derive(Clone, Debug, Args)]
pub(crate) struct HttpsArgs {
    /// Serve HTTPS with this certificate (PEM, with intermediate certificates after it)
    ///
    /// HTTP/2 is negotiated (ALPN). The files are followed: a changed certificate is shown to new
    /// connections, and answers that are being sent go on.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        help_heading = "HTTPS"
    )]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "HTTPS"
    )]
    pub(crate) tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate that one of these authorities signed (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        help_heading = "HTTPS"
    )]
    pub(crate) tls_client_ca: Option<PathBuf>,
}

impl HttpsArgs {
    pub(crate) fn files(&self) -> Option<HttpsFiles> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(certificates), Some(key)) => Some(HttpsFiles {
                certificates: certificates.clone(),
                key: key.clone(),
                client_authorities: self.tls_client_ca.clone(),
            }),
            _ => None,
        }
    }
}

/// Options of every long-running command.
#[derive(Clone, Debug, Args)]
pub(crate) struct GeneralArgs {
    /// Configuration file (TOML, one `name = value` per option)
    #[arg(long, value_name = "FILE", help_heading = "General")]
    pub(crate) config: Option<PathBuf>,
    /// What to log to standard error: error, warn, info, debug, or a tracing filter
    #[arg(long, default_value = "warn", help_heading = "General")]
    pub(crate) log: String,
}

fn mode_help() -> String {
    let names = ModeName::ALL.map(ModeName::as_str);
    format!("How a worker is chosen: {}", names.join(", "))
}

fn mode_long_help() -> String {
    let rows = MODES.map(|spec| format!("{}: {}", spec.name, spec.chooses));
    format!("{}\n\n{}", mode_help(), rows.join("\n"))
}

impl RoutingArgs {
    /// The router mode with its weights.
    pub(crate) fn mode(&self) -> anyhow::Result<Mode> {
        let weights = BlockWeights::new(self.overlap_score_weight, self.router_temperature)?;
        Ok(Mode::new(self.router_mode, weights))
    }

    pub(crate) fn config(&self, seed: u64, blocks: BlockFormat) -> anyhow::Result<RouterConfig> {
        Ok(RouterConfig {
            blocks,
            mode: self.mode()?,
            seed,
            queue_limit: self.queue_limit,
            decisions_kept: self.decision_log,
        })
    }
}
