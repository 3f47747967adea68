//! Options that several commands have in common.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use contract::Visitors;
use frontend::{Connections, Listening};
use router::{BlockWeights, MODES, Mode, ModeName, RouterConfig};

use super::seconds;
use crate::open_files;

/// What is served.
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
    /// Model that a real engine computes: a name of `homing model list`, a path, or OWNER/NAME
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub(crate) model: Option<String>,
    /// Take the names of special tokens in messages for those tokens, not for text
    ///
    /// With it, whoever writes a message can end it and begin another in anybody's name.
    #[arg(long, help_heading = "Model")]
    pub(crate) parse_special_tokens_in_content: bool,
    /// Bytes that remember how text was tokenised
    #[arg(long, default_value_t = 64 << 20, help_heading = "Model")]
    pub(crate) tokenizer_cache_bytes: usize,
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineChoice {
    Simulated,
    Llama,
}

/// How drafts are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpeculationChoice {
    None,
    Ngram,
    Draft,
    Eagle3,
}

/// A real engine instead of the simulator.
#[derive(Clone, Debug, Args)]
pub(crate) struct LlamaArgs {
    /// What computes: simulated, or llama: a real model on this machine's processor
    #[arg(long, value_enum, default_value_t = EngineChoice::Simulated, hide_possible_values = true, help_heading = "Engine")]
    pub(crate) engine: EngineChoice,
    /// Threads of each worker; by default the machine's, divided among the workers (llama)
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Engine")]
    pub(crate) threads: Option<u32>,
    /// Sequences that a worker computes at once (llama)
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "Engine")]
    pub(crate) slots: u32,
    /// Memory of each worker for keys and values, in MiB (llama)
    #[arg(long, default_value_t = 1024, help_heading = "Engine")]
    pub(crate) kv_cache_mb: usize,
    /// Longest prompt plus answer; by default the model's, at most 8192 (llama)
    #[arg(long, help_heading = "Engine")]
    pub(crate) context: Option<usize>,
    /// Tokens that a step computes at most: longer prompts are computed in pieces (llama)
    #[arg(long, default_value_t = 256, help_heading = "Engine")]
    pub(crate) max_step_tokens: usize,
    /// How tokens are guessed ahead: none, ngram, draft, eagle3 (llama)
    ///
    /// ngram guesses that what followed the same words earlier in the text follows again; draft
    /// asks a smaller model with the same vocabulary, eagle3 a head that was trained for the
    /// model. Answers are the same with and without.
    #[arg(long, value_enum, default_value_t = SpeculationChoice::None, hide_possible_values = true, help_heading = "Engine")]
    pub(crate) speculation: SpeculationChoice,
    /// The smaller model (draft) or the head's folder (eagle3): a name or a path, as --model
    #[arg(long, value_name = "NAME", help_heading = "Engine")]
    pub(crate) draft_model: Option<String>,
    /// Most tokens guessed in a step; fewer where fewer pay (llama)
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=16), help_heading = "Engine")]
    pub(crate) draft_tokens: u32,
}

/// Who gets a request.
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
    /// Longest that a request waits for a worker, in seconds; then it gets 429 (kv)
    ///
    /// One that would have to wait longer gets 429 at once. The header `x-request-timeout-ms`
    /// asks for less; more than this it cannot get. Counted is the time in the router's queue,
    /// all of a request's waits together, and neither the computing nor the reading.
    #[arg(long, default_value = "300", value_parser = seconds, value_name = "SECONDS", help_heading = "Routing")]
    pub(crate) max_queue_wait: Duration,
    /// Heed `x-request-priority` of clients whose key does not say how far they may go
    ///
    /// Without it, only a key with a `priority` of its own in --api-key-file gives the right to
    /// go before others; going behind them is everyone's right.
    #[arg(long, help_heading = "Routing")]
    pub(crate) trust_priority_header: bool,
    /// Routing decisions kept for GET /decisions
    #[arg(long, default_value_t = 1000, help_heading = "Routing")]
    pub(crate) decision_log: usize,
}

/// How much is too much.
#[derive(Clone, Debug, Args)]
pub(crate) struct LimitArgs {
    /// Requests held at once, whatever their state
    #[arg(long, default_value_t = 16_384, help_heading = "Limits")]
    pub(crate) max_requests: usize,
    /// Largest request body
    #[arg(long, default_value_t = 16 << 20, help_heading = "Limits")]
    pub(crate) max_body_bytes: usize,
    /// Bytes of large request bodies that are held at once, while they are read and prepared
    ///
    /// More are refused with 429. Never less than --max-body-bytes.
    #[arg(long, default_value_t = 32 << 20, value_name = "BYTES", help_heading = "Limits")]
    pub(crate) max_buffered_bytes: usize,
    /// Connections at once; by default what the limit of open files allows, at most 65536
    ///
    /// When all are taken, the one that has been quiet longest makes room. Where all are busy,
    /// more are answered only on /live, /health, /ready and /metrics.
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = "Limits")]
    pub(crate) max_connections: Option<usize>,
    /// Longest time for a request's header, and longest pause in its body, in seconds
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) read_timeout: Duration,
    /// A connection without a request for so long is closed, in seconds
    #[arg(long, default_value = "120", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) idle_timeout: Duration,
    /// An answer is given up when its client lags so far behind, in seconds
    ///
    /// Its slot is free as soon as its worker is done, however slowly the client reads.
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) slow_reader_timeout: Duration,
    /// How long running streams may take to finish after SIGTERM, in seconds
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) shutdown_grace: Duration,
}

impl LimitArgs {
    /// What every listener of the process allows.
    pub(crate) fn listening(&self, visitors: Visitors) -> Listening {
        let connections = self.max_connections;
        Listening {
            patience: self.slow_reader_timeout,
            read_timeout: self.read_timeout,
            idle_timeout: self.idle_timeout,
            visitors,
            connections: Connections::new(connections.unwrap_or_else(open_files::connections)),
        }
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

/// What every long-running command has.
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

    pub(crate) fn config(&self, seed: u64, block_size: u32) -> anyhow::Result<RouterConfig> {
        Ok(RouterConfig {
            mode: self.mode()?,
            seed,
            queue_limit: self.queue_limit,
            decisions_kept: self.decision_log,
            ..RouterConfig::new(block_size)
        })
    }
}
