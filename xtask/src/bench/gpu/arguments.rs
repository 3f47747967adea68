//! The options of `bench gpu`, and what follows from them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};

/// Distance between the ports of different purposes, and so the most servers.
const PORTS: u16 = 20;
/// Of a card's memory, for all servers on it: the rest is for what the driver and CUDA take.
const MEMORY: f64 = 0.90;

#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Folder of a model in Hugging Face's format: config.json and tokenizer, and its weights
    /// unless they are random
    #[arg(long, value_name = "DIR")]
    pub(super) model_path: PathBuf,
    /// Let vLLM make up weights; the results say so
    #[arg(long)]
    pub(super) random_weights: bool,
    /// Folder for results; made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(super) out: PathBuf,
    /// Add the runs that are missing to a folder of the same servers and the same plan
    #[arg(long)]
    pub(super) resume: bool,
    /// Begin no run that would not end within so many seconds from now, servers' starts included
    #[arg(long, value_name = "SECONDS")]
    pub(super) time_limit: Option<u64>,

    /// Measure step times first, in so many rounds, as `homing calibrate --upstream` does; the profile
    /// is profile.toml in the output folder
    #[arg(long, value_name = "ROUNDS")]
    pub(super) calibrate: Option<u32>,

    /// vLLM servers; by default one per card, three on a single card, two on the CPU
    #[arg(long, value_name = "N")]
    pub(super) servers: Option<usize>,
    /// Where vLLM computes; `cpu` is for trying this command
    #[arg(long, value_enum, default_value_t = Device::Cuda)]
    pub(super) device: Device,
    /// Cards to use, by nvidia-smi's numbers; by default all
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS")]
    pub(super) cards: Vec<u32>,
    /// Share of a card's memory per server; by default 0.90 divided among the servers of a card
    #[arg(long, value_name = "SHARE")]
    pub(super) memory: Option<f64>,
    /// KV cache of each server, in GiB. vLLM then does not measure what is free, and all servers
    /// after the first start at the same time
    #[arg(long, value_name = "GIB")]
    pub(super) kv_memory: Option<f64>,
    #[arg(long, default_value_t = 32, value_name = "TOKENS")]
    pub(super) block_size: u32,
    /// Requests that a server runs at the same time
    #[arg(long, default_value_t = 64, value_name = "N")]
    pub(super) max_num_seqs: u32,
    /// Longest conversation, answer included
    #[arg(long, default_value_t = 16_384, value_name = "TOKENS")]
    pub(super) max_model_len: u32,
    /// A further word of every server's command, such as --vllm-arg=--kv-cache-dtype=fp8
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub(super) vllm_arg: Vec<String>,
    /// Seconds that a server may take to start
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub(super) start_patience: u64,

    /// Conversations at the same time
    #[arg(long, default_value = "60,120,180")]
    pub(super) levels: String,
    /// The router's modes; the others are compared with the first. `kv-blocks@180` runs a mode at
    /// some levels only
    #[arg(long, default_value = "round-robin,kv-blocks,kv")]
    pub(super) modes: String,
    /// Runs of every mode at every level
    #[arg(long, default_value_t = 3)]
    pub(super) repeats: u32,
    /// Seconds that are measured
    #[arg(long, default_value_t = 60)]
    pub(super) seconds: u64,
    /// Seconds before that
    #[arg(long, default_value_t = 20, value_name = "SECONDS")]
    pub(super) warmup: u64,
    /// Further seconds that load may take to become steady
    #[arg(long, default_value_t = 30, value_name = "SECONDS")]
    pub(super) settle: u64,
    /// Conversations begin with one of ten texts (the default, if neither is given)
    #[arg(long)]
    pub(super) shared: bool,
    /// Every conversation begins with a text of its own; after --shared, if both are given
    #[arg(long)]
    pub(super) own_texts: bool,
    /// Levels, modes and repeats of the sweep with own texts, if they are others
    #[arg(long, requires = "own_texts", value_name = "LEVELS")]
    pub(super) own_levels: Option<String>,
    #[arg(long, requires = "own_texts", value_name = "MODES")]
    pub(super) own_modes: Option<String>,
    #[arg(long, requires = "own_texts", value_name = "REPEATS")]
    pub(super) own_repeats: Option<u32>,
    /// Seconds of the time limit that are left to the sweep with own texts
    #[arg(
        long,
        requires = "own_texts",
        requires = "time_limit",
        default_value_t = 0,
        value_name = "SECONDS"
    )]
    pub(super) own_seconds: u64,
    /// After a run, cancel the requests that are not measured instead of waiting for them
    #[arg(long)]
    pub(super) no_drain: bool,
    /// Tokens of an answer, at most
    #[arg(long, default_value_t = 200, value_name = "TOKENS")]
    pub(super) max_tokens: u32,
    /// Cut the texts after so many characters
    #[arg(long, value_name = "CHARACTERS")]
    pub(super) text_limit: Option<u32>,
    /// Conversations that may begin per second
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub(super) starts_per_second: u32,
    /// Another router before the same servers, measured like a mode; may be repeated
    #[arg(long, value_enum, value_name = "NAME")]
    pub(super) rival: Vec<RivalName>,

    /// `homing`; by default the shipped build of this checkout
    #[arg(long, value_name = "PATH")]
    pub(super) homing: Option<PathBuf>,
    /// A Python that has vLLM
    #[arg(long, default_value = "python3", value_name = "PATH")]
    pub(super) python: PathBuf,
    /// First of the ports that are used, on loopback. It is part of the plan: resume with the same
    #[arg(long, default_value_t = 18_400)]
    pub(super) port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Device {
    Cuda,
    Cpu,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RivalName {
    Smg,
    VllmRouter,
}

/// What conversations begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Texts {
    Shared,
    Own,
}

impl Texts {
    /// Of its sweep, within the folder of results.
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Own => "own-texts",
        }
    }
}

impl fmt::Display for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "shared texts",
            Self::Own => "a text per conversation",
        })
    }
}

impl Arguments {
    /// What can be known to be wrong before anything is started.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let config = self.model_path.join("config.json");
        ensure!(
            config.is_file(),
            "--model-path: {} is missing; a folder with a model's config.json and tokenizer is needed",
            config.display()
        );
        let tokenizer = self.model_path.join("tokenizer.json");
        ensure!(
            tokenizer.is_file(),
            "--model-path: {} is missing",
            tokenizer.display()
        );
        ensure!(
            self.memory.is_none_or(|share| share > 0.0 && share <= 1.0),
            "--memory: a share is above 0 and at most 1"
        );
        ensure!(
            self.servers
                .is_none_or(|servers| (1..=usize::from(PORTS)).contains(&servers)),
            "--servers: between 1 and {PORTS}"
        );
        ensure!(
            self.port <= u16::MAX - 5 * PORTS,
            "--port: {} leaves no room for the ports after it",
            self.port
        );
        Ok(())
    }

    pub(super) fn texts(&self) -> Vec<Texts> {
        match (self.shared, self.own_texts) {
            (_, false) => vec![Texts::Shared],
            (false, true) => vec![Texts::Own],
            (true, true) => vec![Texts::Shared, Texts::Own],
        }
    }

    pub(super) fn levels_of(&self, texts: Texts) -> &str {
        let own = self.own_levels.as_deref();
        own.filter(|_| texts == Texts::Own).unwrap_or(&self.levels)
    }

    pub(super) fn modes_of(&self, texts: Texts) -> &str {
        let own = self.own_modes.as_deref();
        own.filter(|_| texts == Texts::Own).unwrap_or(&self.modes)
    }

    pub(super) fn repeats_of(&self, texts: Texts) -> u32 {
        let own = self.own_repeats.filter(|_| texts == Texts::Own);
        own.unwrap_or(self.repeats)
    }

    /// Until which second of the benchmark a sweep may run.
    pub(super) fn limit_of(&self, texts: Texts) -> Option<Duration> {
        let limit = self.time_limit?;
        Some(Duration::from_secs(match texts {
            Texts::Shared => limit.saturating_sub(self.own_seconds),
            Texts::Own => limit,
        }))
    }

    /// Under which the model is served; random weights are part of it, so that every table and
    /// page that has the one has the other.
    pub(super) fn model_name(&self) -> String {
        let path = std::path::absolute(&self.model_path);
        let path = path.unwrap_or_else(|_| self.model_path.clone());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match self.random_weights {
            true => format!("{name}-random-weights"),
            false => name.into_owned(),
        }
    }

    /// Of a card with so many servers, for one of them.
    pub(super) fn memory_share(&self, servers: usize) -> f64 {
        let equal = (100.0 * MEMORY / servers as f64).floor() / 100.0;
        self.memory.unwrap_or(equal)
    }

    pub(super) fn frontend_port(&self) -> u16 {
        self.port
    }

    pub(super) fn rival_port(&self, rival: usize) -> u16 {
        self.port + 1 + 2 * rival as u16
    }

    pub(super) fn server_port(&self, server: usize) -> u16 {
        self.port + PORTS + server as u16
    }

    pub(super) fn events_port(&self, server: usize) -> u16 {
        self.port + 2 * PORTS + server as u16
    }

    pub(super) fn replay_port(&self, server: usize) -> u16 {
        self.port + 3 * PORTS + server as u16
    }

    /// All that will be listened on.
    pub(super) fn ports(&self, servers: usize) -> Vec<u16> {
        let rivals = (0..self.rival.len()).flat_map(|rival| {
            let port = self.rival_port(rival);
            [port, port + 1]
        });
        let servers = (0..servers).flat_map(|server| {
            [
                self.server_port(server),
                self.events_port(server),
                self.replay_port(server),
            ]
        });
        std::iter::once(self.frontend_port())
            .chain(rivals)
            .chain(servers)
            .collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    pub(in super::super) fn parsed(words: &str) -> Arguments {
        let always = "gpu --model-path m/shape --out o ";
        let words = format!("{always}{words}");
        Line::try_parse_from(words.split_whitespace())
            .unwrap()
            .arguments
    }

    #[test]
    fn random_weights_are_in_the_models_name() {
        assert_eq!(parsed("").model_name(), "shape");
        assert_eq!(
            parsed("--random-weights").model_name(),
            "shape-random-weights"
        );
    }

    #[test]
    fn both_kinds_of_texts_are_run_in_one_order() {
        for (words, expected) in [
            ("", vec![Texts::Shared]),
            ("--shared", vec![Texts::Shared]),
            ("--own-texts", vec![Texts::Own]),
            ("--own-texts --shared", vec![Texts::Shared, Texts::Own]),
        ] {
            assert_eq!(parsed(words).texts(), expected, "{words}");
        }
    }

    #[test]
    fn own_texts_may_have_a_plan_of_their_own() {
        let same = parsed("--own-texts --levels 5 --modes kv --repeats 2 --time-limit 100");
        assert_eq!(
            (same.levels_of(Texts::Own), same.modes_of(Texts::Own)),
            ("5", "kv")
        );
        assert_eq!(same.repeats_of(Texts::Own), 2);
        assert_eq!(same.limit_of(Texts::Shared), same.limit_of(Texts::Own));
        let other = parsed(
            "--shared --own-texts --time-limit 100 --own-seconds 30 \
             --own-levels 7 --own-modes random --own-repeats 1",
        );
        assert_eq!(
            (other.levels_of(Texts::Own), other.modes_of(Texts::Own)),
            ("7", "random")
        );
        assert_eq!(other.levels_of(Texts::Shared), "60,120,180");
        let repeats = [Texts::Shared, Texts::Own].map(|texts| other.repeats_of(texts));
        assert_eq!(repeats, [3, 1]);
        let limits = [Texts::Shared, Texts::Own].map(|texts| other.limit_of(texts));
        assert_eq!(
            limits,
            [70, 100].map(|limit| Some(Duration::from_secs(limit)))
        );
    }

    #[test]
    fn servers_of_a_card_share_its_memory() {
        for (words, servers, expected) in [
            ("", 1, 0.90),
            ("", 3, 0.30),
            ("", 4, 0.22),
            ("--memory 0.25", 3, 0.25),
        ] {
            let share = parsed(words).memory_share(servers);
            assert!(
                (share - expected).abs() < 1e-9,
                "{words} {servers}: {share}"
            );
        }
    }

    #[test]
    fn no_port_has_two_purposes() {
        let arguments = parsed("--rival smg --rival vllm-router");
        let ports = arguments.ports(usize::from(PORTS));
        let different: BTreeSet<_> = ports.iter().collect();
        assert_eq!(different.len(), ports.len());
    }

    #[test]
    fn words_for_vllm_are_taken_as_they_are() {
        let arguments = parsed("--vllm-arg=--kv-cache-dtype=fp8 --vllm-arg --enforce-eager");
        assert_eq!(
            arguments.vllm_arg,
            ["--kv-cache-dtype=fp8", "--enforce-eager"]
        );
    }
}
