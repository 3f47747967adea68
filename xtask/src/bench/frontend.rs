//! What the frontend costs.
//!
//! Every measurement is closed-loop over loopback with the client in this process. CPU is the
//! server process's own (it holds the workers too, so their share counts against us).

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use clap::Args;
use contract::random::Random;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Client, Served, percentile, post};
use super::collector::Collector;
use super::figures::{best, median, say};
use super::real_tokenizer;
use super::server::Server;

const CLIENTS: usize = 64;
const OPEN_STREAMS: usize = 1000;
const SETTLE: Duration = Duration::from_secs(3);

/// Prompt, clients and length of answers of each measurement, and what it is called.
const LOADS: [(&str, Load); 7] = [
    ("200-token prompt, 1 client", Load::new(1, Kind::Short, 1)),
    (
        "200-token prompt, 64 clients",
        Load::new(CLIENTS, Kind::Short, 1),
    ),
    (
        "3,500-token prompt, cold, 1 client",
        Load::new(1, Kind::Cold, 1),
    ),
    (
        "3,500-token prompt, cold, 64 clients",
        Load::new(CLIENTS, Kind::Cold, 1),
    ),
    (
        "3,500-token prompt, warm conversation, 1 client",
        Load::new(1, Kind::Warm, 1),
    ),
    (
        "3,500-token prompt, warm conversation, 64 clients",
        Load::new(CLIENTS, Kind::Warm, 1),
    ),
    (
        "1,000-token answers, 64 clients",
        Load::new(CLIENTS, Kind::Short, 1000),
    ),
];

#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// Seconds per measurement
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Another build of homing, measured by turns with this one
    ///
    /// A machine that others share is now fast and now slow. Each load goes to both programs in
    /// short turns, and each round's ratio is taken before the median.
    #[arg(long, value_name = "PROGRAM")]
    beside: Option<PathBuf>,
    /// This build with and without spans of a tenth of its requests, measured by turns
    ///
    /// The spans go to a collector that takes everything and looks at nothing, in this process.
    #[arg(long, conflicts_with_all = ["beside", "model_path"])]
    otlp: bool,
    /// Folder with a real model's tokenizer.json and chat template: measures the frontend with it,
    /// over workers of ours and of Dynamo's, beside Dynamo's own frontend
    ///
    /// Weights are not needed; a missing config.json is made up. Dynamo comes from PyPI.
    #[arg(long, value_name = "DIR", conflicts_with = "beside")]
    model_path: Option<PathBuf>,
    /// Turns of each program, for --beside, --otlp and --model-path
    #[arg(long, default_value_t = 10)]
    rounds: usize,
}

impl Arguments {
    /// As they are on the command line.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words = vec!["--seconds".into(), self.seconds.to_string().into()];
        words.extend(["--rounds".into(), self.rounds.to_string().into()]);
        if let Some(beside) = &self.beside {
            words.extend(["--beside".into(), beside.clone().into()]);
        }
        if self.otlp {
            words.push("--otlp".into());
        }
        if let Some(model) = &self.model_path {
            words.extend(["--model-path".into(), model.clone().into()]);
        }
        words
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    // One thread: the client must leave a core to the server.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let seconds = Duration::from_secs(arguments.seconds);
    if let Some(model) = &arguments.model_path {
        return runtime.block_on(real_tokenizer::run(model, arguments.rounds, seconds));
    }
    say("zero-delay workers, client and server on the same machine, streaming");
    if let Some(other) = &arguments.beside {
        let options = ["--profile", "zero-delay"];
        let servers = [
            Server::start(&options)?,
            Server::start_program(other, &options)?,
        ];
        return runtime.block_on(beside(&servers, arguments.rounds, seconds));
    }
    if arguments.otlp {
        let collector = Collector::start()?;
        let plain = ["--profile", "zero-delay"];
        let traced = [&plain[..], &collector.options()].concat();
        say("this: spans of 10 % of the requests, over OTLP/HTTP; beside: none");
        let servers = [Server::start(&traced)?, Server::start(&plain)?];
        runtime.block_on(beside(&servers, arguments.rounds, seconds))?;
        say(&format!("{} batches of spans came", collector.batches()));
        return Ok(());
    }
    let server = Server::start(&["--profile", "zero-delay"])?;
    let prompts = runtime.block_on(Prompts::new(&server))?;
    for (name, load) in LOADS {
        let measured = runtime.block_on(drive(&server, &prompts, load, seconds))?;
        report(name, measured)?;
    }
    drop(server);
    runtime.block_on(open_streams(seconds))
}

/// CPU of the server for a request, of one server and of another, by turns.
async fn beside(servers: &[Server; 2], rounds: usize, turn: Duration) -> anyhow::Result<()> {
    ensure!(rounds > 0, "--rounds must be at least 1");
    let prompts = Prompts::new(&servers[0]).await?;
    say("ms CPU/req, best turn and median; ratio and difference: median over rounds");
    for (name, load) in LOADS {
        let mut sides = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            // Neither is always the first.
            for side in [round % 2, 1 - round % 2] {
                let load = Load { round, ..load };
                let measured = drive(&servers[side], &prompts, load, turn).await?;
                sides[side].push(measured.cpu_per_request());
            }
        }
        let pairs = || sides[0].iter().zip(&sides[1]);
        let mut ratios: Vec<f64> = pairs().map(|(a, b)| a / b).collect();
        let mut more: Vec<f64> = pairs().map(|(a, b)| (a - b) * 1e3).collect();
        let [ours, theirs] = &mut sides;
        say(&format!(
            "{name:<52} this {:>6.3} {:>6.3}   beside {:>6.3} {:>6.3}   ratio {:.3}   difference {:>6.1} us",
            best(ours),
            median(ours),
            best(theirs),
            median(theirs),
            median(&mut ratios),
            median(&mut more),
        ));
    }
    Ok(())
}

/// Many streams open at once at the simulated H200's pace: memory, and what a token costs when
/// each is written as it comes.
async fn open_streams(duration: Duration) -> anyhow::Result<()> {
    let server = Server::start(&["--workers", "16"])?;
    let prompts = Prompts::new(&server).await?;
    let idle = server.resident()?;
    let mut open = Vec::new();
    for number in 0..OPEN_STREAMS {
        let mut client = Client::connect(&server.address).await?;
        client
            .begin(&prompts.request(Kind::Short, number, 20_000))
            .await?;
        open.push(client);
    }
    // What gathered while the streams were opened is read first and not counted.
    let begin = Instant::now() + SETTLE;
    let end = begin + duration;
    let mut tasks = JoinSet::new();
    for mut client in open {
        tasks.spawn(async move {
            let settled = client.count_until(begin).await;
            let events = match settled {
                Ok(_) => client.count_until(end).await,
                Err(error) => Err(error),
            };
            (client, events)
        });
    }
    tokio::time::sleep_until(begin).await;
    let cpu_before = server.cpu()?;
    // The clients stay connected until the figures are taken.
    let counted = tasks.join_all().await;
    let (cpu, resident) = (server.cpu()? - cpu_before, server.resident()?);
    let mut tokens = 0;
    for (_, events) in &counted {
        tokens += events
            .as_ref()
            .copied()
            .map_err(|error| anyhow!("{error:#}"))?;
    }
    say(&format!(
        "{OPEN_STREAMS} open streams at a simulated H200's pace: {:.0} tokens/s, each written as it \
         comes, {:.2} us CPU/token",
        tokens as f64 / duration.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / tokens as f64,
    ));
    say(&format!(
        "resident memory: {:.0} MB idle with 16 workers, {:.0} MB at {OPEN_STREAMS} open streams",
        idle as f64 / 1e6,
        resident as f64 / 1e6
    ));
    Ok(())
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// About 200 tokens, different each time.
    Short,
    /// About 3,500 tokens that no cache has seen.
    Cold,
    /// A conversation of about 3,500 tokens, of which only the last turn is new.
    Warm,
}

pub(super) struct Prompts {
    model: String,
    article: String,
    words: Vec<String>,
    words_in_200_tokens: usize,
    words_in_3500_tokens: usize,
}

impl Prompts {
    /// How many words make a prompt of the right length is asked of the server itself.
    pub(super) async fn new(server: &Server) -> anyhow::Result<Self> {
        let article = fs::read_to_string("corpus/01-virtual-memory.md")?;
        let words: Vec<String> = article.split_whitespace().map(str::to_owned).collect();
        let mut prompts = Self {
            model: server.model.clone(),
            article,
            words_in_200_tokens: 0,
            words_in_3500_tokens: 0,
            words,
        };
        let sample = 2000;
        let mut client = Client::connect(&server.address).await?;
        let tokens = client
            .prompt_tokens(&prompts.sample_request(sample))
            .await?;
        prompts.words_in_200_tokens = 200 * sample / tokens;
        prompts.words_in_3500_tokens = 3500 * sample / tokens;
        Ok(prompts)
    }

    fn sample_request(&self, words: usize) -> Vec<u8> {
        let messages = json!([{ "role": "user", "content": self.shuffled(0, words) }]);
        let body = json!({ "model": self.model, "messages": messages, "max_tokens": 1 });
        post("/v1/chat/completions", &body.to_string())
    }

    /// Words of the article in an order that `number` decides.
    fn shuffled(&self, number: usize, count: usize) -> String {
        let mut random = Random::new(number as u64);
        let words: Vec<&str> = (0..count)
            .map(|_| &*self.words[random.below(self.words.len())])
            .collect();
        words.join(" ")
    }

    fn request(&self, kind: Kind, number: usize, max_tokens: u32) -> Vec<u8> {
        let user = |content: String| json!({ "role": "user", "content": content });
        let messages = match kind {
            Kind::Short => vec![user(self.shuffled(number, self.words_in_200_tokens))],
            Kind::Cold => vec![user(self.shuffled(number, self.words_in_3500_tokens))],
            Kind::Warm => vec![
                user(self.article.clone()),
                json!({ "role": "assistant", "content": "An answer that came before." }),
                user(format!("And what about point {number}, in more detail?")),
            ],
        };
        let body = json!({
            "model": self.model,
            "messages": messages,
            "max_tokens": max_tokens,
            "ignore_eos": true,
            "stream": true,
        });
        post("/v1/chat/completions", &body.to_string())
    }
}

/// What one measurement yields.
pub(super) struct Measured {
    served: Vec<Served>,
    /// Of each answer.
    tokens: u32,
    wall: Duration,
    cpu: Duration,
}

impl Measured {
    /// In milliseconds.
    fn cpu_per_request(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e3 / self.served.len() as f64
    }
}

/// How many clients ask at once, for what, and for how long answers.
#[derive(Clone, Copy)]
pub(super) struct Load {
    clients: usize,
    kind: Kind,
    max_tokens: u32,
    /// Prompts of another round are others.
    round: usize,
}

impl Load {
    pub(super) const fn new(clients: usize, kind: Kind, max_tokens: u32) -> Self {
        Self {
            clients,
            kind,
            max_tokens,
            round: 0,
        }
    }
}

pub(super) async fn drive(
    server: &Server,
    prompts: &Prompts,
    load: Load,
    duration: Duration,
) -> anyhow::Result<Measured> {
    let Load {
        clients,
        kind,
        max_tokens,
        round,
    } = load;
    // Made beforehand: what the client spends on it must not be measured.
    let pool = if matches!(kind, Kind::Cold) {
        4000
    } else {
        1000
    };
    let salt = clients * 1_000_000 + max_tokens as usize + round * 10_000;
    let requests: Arc<Vec<Vec<u8>>> = Arc::new(
        (0..pool)
            .map(|n| prompts.request(kind, salt + n, max_tokens))
            .collect(),
    );
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let (began, cpu_before) = (Instant::now(), server.cpu()?);
    for _ in 0..clients {
        let (requests, next) = (Arc::clone(&requests), Arc::clone(&next));
        let mut client = Client::connect(&server.address).await?;
        tasks.spawn(async move {
            let mut served = Vec::new();
            while began.elapsed() < duration {
                let number = next.fetch_add(1, Ordering::Relaxed);
                // A cold prompt is cold once only.
                let once = matches!(kind, Kind::Cold) && number >= requests.len();
                if once {
                    break;
                }
                served.push(client.request(&requests[number % requests.len()]).await?);
            }
            anyhow::Ok(served)
        });
    }
    let mut served = Vec::new();
    while let Some(task) = tasks.join_next().await {
        served.extend(task.context("a client task failed")??);
    }
    Ok(Measured {
        served,
        tokens: max_tokens,
        wall: began.elapsed(),
        cpu: server.cpu()? - cpu_before,
    })
}

pub(super) fn report(name: &str, measured: Measured) -> anyhow::Result<()> {
    let cpu_per_request = measured.cpu_per_request();
    let Measured {
        served,
        tokens,
        wall,
        cpu,
    } = measured;
    let requests = served.len() as f64;
    let events: u64 = served.iter().map(|served| served.events).sum();
    // A client that lags gets several tokens in one event.
    let tokens = requests * f64::from(tokens);
    let mut first: Vec<Duration> = served.iter().map(|served| served.first).collect();
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    say(&format!(
        "{name:<52} {:>8.0} req/s  first token p50 {:>6.2} p99 {:>6.2} ms  {:>6.3} ms CPU/req  \
         {:>8.0} tokens/s  {:>6.2} us CPU/token  {:>4.0} events/answer",
        requests / wall.as_secs_f64(),
        milliseconds(percentile(&mut first, 0.50)?),
        milliseconds(percentile(&mut first, 0.99)?),
        cpu_per_request,
        tokens / wall.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / tokens,
        events as f64 / requests,
    ));
    Ok(())
}
