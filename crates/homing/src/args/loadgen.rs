//! Options of `loadgen`. Like an experiment's, they are given on the command line only; keys
//! come from the environment, because other users of the machine can read a command line.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use lab::notation::{duration, speed};
use stats::Objectives;
use telemetry::catalog::DEFINITIONS;

use super::{ConsoleArgs, HttpsArgs, TextArgs};

/// What `--help` says after the options.
pub(super) fn after_help() -> String {
    let mut text = String::from(
        "What is measured:\n  Every conversation begins with a long text and a request to explain \
         it; each later turn asks about\n  the last answer and sends the whole conversation again, \
         so that the server's cache can hold all but\n  the new question. Tokens are the \
         server's count, never the number of events. Percentiles\n  are nearest ranks. Failed \
         requests are counted as failures.\n\n",
    );
    for definition in &DEFINITIONS {
        let meaning = definition.meaning;
        text.push_str(&format!("  {:<5} {meaning}\n", definition.name));
    }
    text.push_str(EXAMPLES);
    text
}

const EXAMPLES: &str = "
Exit status: 0 on success, 1 if an objective was missed, 2 if the target cannot be used.
Ctrl-C lets running answers finish and prints the table; a second Ctrl-C stops immediately.

Examples:
  homing demo --no-load &
  homing loadgen --target http://127.0.0.1:8000 --concurrency 60 --duration 120s
  homing loadgen --target http://127.0.0.1:8000 --slo ttft_p95=600ms,tpot_p95=60ms --record runs.jsonl
  homing loadgen --target https://api.example/v1 --api-key-env API_KEY --model m --plain
  homing loadgen --target http://127.0.0.1:8000 --arrivals 2 --turns 4 --think-time 1s..5s
  homing loadgen --target http://127.0.0.1:8000 --corpus texts/ --unique
  homing loadgen --target https://api.example/v1 --api-key-env API_KEY --console-port 3000";

#[derive(Clone, Debug, Args)]
pub(crate) struct LoadgenArgs {
    /// Server with an OpenAI-compatible API: http://host:port, optionally with the path of its API
    #[arg(long, value_name = "URL", help_heading = "Target")]
    pub(crate) target: String,
    /// Model to request; by default the first that the target lists
    #[arg(long, help_heading = "Target")]
    pub(crate) model: Option<String>,
    /// Environment variable that holds the target's API key
    #[arg(long, value_name = "NAME", help_heading = "Target")]
    pub(crate) api_key_env: Option<String>,
    /// Use HTTP/2 with prior knowledge; over TLS it is negotiated anyway
    ///
    /// All requests then share one connection, on which servers usually allow about a hundred
    /// concurrent streams; further requests wait, and their waiting counts as latency.
    #[arg(long, help_heading = "Target")]
    pub(crate) http2: bool,
    /// PEM file of certificates to trust instead of the system's
    #[arg(long, value_name = "FILE", help_heading = "Target")]
    pub(crate) ca_cert: Option<PathBuf>,
    /// Send only OpenAI's own fields, for servers that reject any other
    ///
    /// Otherwise requests also ask for a token count in every event, and for the worker that
    /// served them, its timing and why it was chosen.
    #[arg(long, help_heading = "Target")]
    pub(crate) plain: bool,
    /// Longest time for a whole answer
    #[arg(long, default_value = "120s", value_parser = duration, value_name = "TIME", help_heading = "Target")]
    pub(crate) timeout: Duration,
    /// Longest pause between two events of an answer
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "TIME", help_heading = "Target")]
    pub(crate) stall: Duration,

    /// Concurrent conversations
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Load")]
    pub(crate) concurrency: u32,
    /// How long to send new turns; running answers may then finish. By default 60s, or with
    /// --console-port until Ctrl-C
    #[arg(long, value_parser = duration, value_name = "TIME", help_heading = "Load")]
    pub(crate) duration: Option<Duration>,
    /// Time at the start whose requests are left out of the results
    #[arg(long, default_value = "0s", value_parser = duration, value_name = "TIME", help_heading = "Load")]
    pub(crate) warmup: Duration,
    /// Turns of a conversation: a number or a range such as 3..5
    #[arg(long, default_value = "3..5", value_parser = turns, value_name = "RANGE", help_heading = "Load")]
    pub(crate) turns: RangeInclusive<u32>,
    /// Longest answer, in tokens
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Load")]
    pub(crate) max_tokens: u32,
    /// How long a user thinks before the next turn: a time or a range such as 1s..5s
    #[arg(long, default_value = "0s", value_parser = think_time, value_name = "RANGE", help_heading = "Load")]
    pub(crate) think_time: RangeInclusive<f64>,
    /// Conversations started per second until --concurrency is reached; 0 starts all at once
    #[arg(
        long,
        default_value_t = 10.0,
        value_name = "PER_SECOND",
        help_heading = "Load"
    )]
    pub(crate) ramp: f64,
    /// Most requests sent per second
    #[arg(long, value_parser = speed, value_name = "PER_SECOND", help_heading = "Load")]
    pub(crate) max_rps: Option<f64>,
    /// Open loop: conversations that arrive per second, however slow the running ones are
    ///
    /// A closed loop, the default, sends less to a slow server; an open one shows what happens
    /// when users do not wait for each other. Replaces --concurrency.
    #[arg(long, value_parser = speed, value_name = "PER_SECOND", conflicts_with = "concurrency", help_heading = "Load")]
    pub(crate) arrivals: Option<f64>,
    /// Random seed; the same seed gives the same conversations
    #[arg(long, default_value_t = 42, help_heading = "Load")]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) texts: TextArgs,
    /// Begin every conversation with a line of its own, so that none hits another's cache
    #[arg(long, help_heading = "Text")]
    pub(crate) unique: bool,
    /// Choose some texts more often than others: the k-th in proportion to k to the power of minus this
    #[arg(long, value_name = "EXPONENT", value_parser = speed, help_heading = "Text")]
    pub(crate) zipf: Option<f64>,
    /// Send a seed with every request, from --seed, conversation and turn
    ///
    /// A server that honours it then gives the same answers in every run. A simulated one answers
    /// equal questions of different conversations differently, as a server that samples does.
    #[arg(long, help_heading = "Text")]
    pub(crate) sampling_seeds: bool,

    /// Write a JSON line per request to this file
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) record: Option<PathBuf>,
    /// Write the users' messages of at most the last 500 conversations, for aiperf to replay
    /// (--custom-dataset-type multi_turn)
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub(crate) export_aiperf: Option<PathBuf>,
    /// Latency objectives, such as ttft_p95=600ms,tpot_p95=60ms
    ///
    /// ttft, tpot, itl or e2e, with _p50, _p95 or _p99, in ms or s. They hold if no request
    /// failed and each percentile is at most its time.
    #[arg(
        long,
        value_name = "OBJECTIVES",
        value_delimiter = ',',
        help_heading = "Results"
    )]
    pub(crate) slo: Vec<Objectives>,
    /// Port of the load generator's own /metrics; 0 picks a free one
    #[arg(long, value_name = "PORT", help_heading = "Results")]
    pub(crate) metrics_port: Option<u16>,
    /// Address of that port
    #[arg(
        long,
        default_value = "127.0.0.1",
        value_name = "HOST",
        help_heading = "Results"
    )]
    pub(crate) metrics_host: IpAddr,
    /// Port of a web console that shows and drives this load; 0 picks a free one
    ///
    /// It also shows what the target tells of itself: all of a Homing, the metrics of a vLLM or
    /// SGLang server or of a Dynamo frontend, and with --prometheus-url Dynamo's workers.
    #[arg(long, value_name = "PORT", help_heading = "Console")]
    pub(crate) console_port: Option<u16>,
    /// Address of that port
    ///
    /// Beyond loopback, changes require a token: that of the environment variable
    /// HOMING_CONTROL_TOKEN, or one that is printed.
    #[arg(
        long,
        default_value = "127.0.0.1",
        value_name = "HOST",
        help_heading = "Console"
    )]
    pub(crate) console_host: IpAddr,
    /// Send no load before the console's Start
    #[arg(long, requires = "console_port", help_heading = "Console")]
    pub(crate) paused: bool,
    /// Environment variable with the target's control token, to switch its router on the console
    #[arg(long, value_name = "NAME", help_heading = "Console")]
    pub(crate) target_token_env: Option<String>,
    #[command(flatten)]
    pub(crate) console: ConsoleArgs,
    #[command(flatten)]
    pub(crate) https: HttpsArgs,
}

/// Default duration of the load without a console.
const DURATION: Duration = Duration::from_secs(60);

impl LoadgenArgs {
    /// How long to send new turns; `None` until somebody stops it.
    pub(crate) fn sending(&self) -> Option<Duration> {
        match (self.duration, self.console_port) {
            (None, Some(_)) => None,
            (duration, _) => Some(duration.unwrap_or(DURATION)),
        }
    }
}

fn turns(text: &str) -> anyhow::Result<RangeInclusive<u32>> {
    let number = |text: &str| match text.trim().parse::<u32>() {
        Ok(number) if number > 0 => Ok(number),
        Ok(_) | Err(_) => bail!("`{text}` is not a number of turns"),
    };
    range(text, number)
}

fn think_time(text: &str) -> anyhow::Result<RangeInclusive<f64>> {
    range(text, |text| Ok(duration(text)?.as_secs_f64()))
}

/// One value, or two with `..` between them.
fn range<T: PartialOrd + Copy>(
    text: &str,
    parse: impl Fn(&str) -> anyhow::Result<T>,
) -> anyhow::Result<RangeInclusive<T>> {
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let (first, last) = (parse(first)?, parse(last.trim_start_matches('='))?);
    if first > last {
        bail!("`{text}` is a reversed range");
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_one_value_or_two() {
        assert_eq!(turns("3..5").unwrap(), 3..=5);
        assert_eq!(turns("3..=5").unwrap(), 3..=5);
        assert_eq!(turns("4").unwrap(), 4..=4);
        assert_eq!(think_time("500ms..2s").unwrap(), 0.5..=2.0);
        for text in ["", "0", "5..3", "3..", "x"] {
            assert!(turns(text).is_err(), "{text}");
        }
    }
}
