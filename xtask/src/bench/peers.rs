//! Two frontends over the same engines of others: what sharing repairs, and what it costs beside one.
//!
//! Three simulated servers, each behind its own OpenAI-compatible API and with a queue of its own, as
//! an engine of somebody else has it. The same conversations go through one frontend, through two that
//! do not know each other, and through two that do. How many requests are on each engine is asked of
//! the engines, again and again.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::HOMING;
use super::figures::say;
use super::server::Server;
use crate::repository;

const ENGINES: usize = 3;
const SLOTS: u32 = 64;
/// How often engines are asked how many requests they have.
const ASK_EVERY: Duration = Duration::from_millis(10);

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder with a tokenizer and a chat template, for engines and frontends
    #[arg(long, value_name = "DIR")]
    model_path: PathBuf,
    /// Conversations at once, over all frontends
    #[arg(long, default_value_t = 180)]
    conversations: usize,
    /// Seconds before the measurement
    #[arg(long, default_value_t = 30)]
    warmup: u64,
    /// Seconds per measurement
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Measurements of each arrangement, by turns
    #[arg(long, default_value_t = 2)]
    rounds: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrangement {
    One,
    Strangers,
    Peers,
}

impl Arrangement {
    const ALL: [Self; 3] = [Self::One, Self::Strangers, Self::Peers];

    fn name(self) -> &'static str {
        match self {
            Self::One => "one frontend",
            Self::Strangers => "two, not sharing",
            Self::Peers => "two, sharing",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    say(&format!(
        "{ENGINES} SIMULATED servers of {SLOTS} slots, {} conversations, {} s each after {} s",
        arguments.conversations, arguments.seconds, arguments.warmup
    ));
    say("arrangement         TTFT p50 / p95 / p99 ms    tokens/s  most on an engine  failed");
    for _ in 0..arguments.rounds {
        for arrangement in Arrangement::ALL {
            say(&measure(arrangement, arguments)?);
        }
    }
    Ok(())
}

/// A line of the table.
fn measure(arrangement: Arrangement, arguments: &Arguments) -> anyhow::Result<String> {
    let folder = arguments.model_path.to_str().context("--model-path")?;
    let mut engines = Vec::new();
    for _ in 0..ENGINES {
        // With round robin nothing waits before its engine, whose own queue takes all that comes.
        let options = [
            "--workers",
            "1",
            "--model-path",
            folder,
            "--router-mode",
            "round-robin",
        ];
        engines.push(Server::start(&options)?);
    }
    let frontends = frontends(arrangement, folder, &engines)?;
    let crowd = Crowd::watch(&engines);
    let records = converse(&frontends, arguments)?;
    let most = crowd.most();
    let mut figures = Figures::default();
    for record in &records {
        figures.add(record, arguments)?;
    }
    let [p50, p95, p99] = figures.ttft()?;
    Ok(format!(
        "{:<18}  {p50:>6.0} / {p95:>6.0} / {p99:>6.0}         {:>8.0}  {most:>17}  {:>6}",
        arrangement.name(),
        figures.tokens as f64 / arguments.seconds as f64,
        figures.failed
    ))
}

fn frontends(
    arrangement: Arrangement,
    folder: &str,
    engines: &[Server],
) -> anyhow::Result<Vec<Server>> {
    let upstreams: Vec<String> = engines
        .iter()
        .map(|engine| format!("openai=http://{},slots={SLOTS}", engine.address))
        .collect();
    let model = &engines[0].model;
    let mut options = vec!["--model-path", folder, "--model-name", model];
    for upstream in &upstreams {
        options.extend(["--upstream", upstream]);
    }
    let listening = [&options[..], &["--peer-listen", "127.0.0.1:0"]].concat();
    let frontends = match arrangement {
        Arrangement::One => vec![Server::frontend(&options)?],
        Arrangement::Strangers => vec![Server::frontend(&options)?, Server::frontend(&options)?],
        Arrangement::Peers => {
            let first = Server::frontend(&listening)?;
            let address = first.peers.clone().context("no address for peers")?;
            let knowing = [&options[..], &["--peers", &address]].concat();
            let second = Server::frontend(&knowing)?;
            vec![first, second]
        }
    };
    // Engines are asked what they are, and join within a moment.
    thread::sleep(Duration::from_secs(3));
    Ok(frontends)
}

/// The same conversations, divided among the frontends. Returns a record of each load generator.
fn converse(frontends: &[Server], arguments: &Arguments) -> anyhow::Result<Vec<PathBuf>> {
    let target = repository::target_directory()?;
    let mut running: Vec<(Child, PathBuf)> = Vec::new();
    for (index, frontend) in frontends.iter().enumerate() {
        let record = target.join(format!("peers-{index}.jsonl"));
        let conversations = arguments.conversations / frontends.len();
        let child = Command::new(HOMING)
            .args(["loadgen", "--target"])
            .arg(format!("http://{}", frontend.address))
            .args(["--concurrency", &conversations.to_string()])
            .args(["--seed", &(7 + index).to_string()])
            .arg("--duration")
            .arg(format!("{}s", arguments.warmup + arguments.seconds))
            .arg("--record")
            .arg(&record)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        running.push((child, record));
    }
    let mut records = Vec::new();
    for (mut child, record) in running {
        ensure!(child.wait()?.success(), "a load generator failed");
        records.push(record);
    }
    Ok(records)
}

/// What came out in the time that counts.
#[derive(Debug, Default)]
struct Figures {
    ttft_ms: Vec<f64>,
    tokens: u64,
    failed: usize,
}

impl Figures {
    fn add(&mut self, record: &Path, arguments: &Arguments) -> anyhow::Result<()> {
        let end = arguments.warmup + arguments.seconds;
        let window = arguments.warmup as f64..end as f64;
        for line in fs::read_to_string(record)?.lines() {
            let request: Value = serde_json::from_str(line)?;
            let sent = request["sent_s"].as_f64().context("no start")?;
            let ended = request["ended_s"].as_f64().context("no end")?;
            if !request["error"].is_null() {
                // Those that run when the time is over are broken off.
                self.failed += usize::from(ended < end as f64);
                continue;
            }
            if window.contains(&ended) {
                self.tokens += request["output_tokens"].as_u64().unwrap_or_default();
            }
            if window.contains(&sent) {
                self.ttft_ms
                    .push(request["ttft_ms"].as_f64().context("no TTFT")?);
            }
        }
        Ok(())
    }

    /// Percentiles 50, 95 and 99.
    fn ttft(&mut self) -> anyhow::Result<[f64; 3]> {
        ensure!(!self.ttft_ms.is_empty(), "no request was answered");
        self.ttft_ms.sort_by(f64::total_cmp);
        let last = self.ttft_ms.len() - 1;
        let at = |share: f64| self.ttft_ms[(share * last as f64).round() as usize];
        Ok([at(0.50), at(0.95), at(0.99)])
    }
}

/// Asks engines how many requests they have.
struct Crowd {
    over: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    asking: Vec<thread::JoinHandle<()>>,
}

impl Crowd {
    fn watch(engines: &[Server]) -> Self {
        let (over, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let asking = engines.iter().map(|engine| {
            let (over, most) = (Arc::clone(&over), Arc::clone(&most));
            let address = engine.address.clone();
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if let Ok(on_it) = in_flight(&address) {
                        most.fetch_max(on_it, Ordering::Relaxed);
                    }
                    thread::sleep(ASK_EVERY);
                }
            })
        });
        let asking = asking.collect();
        Self { over, most, asking }
    }

    fn most(self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        for one in self.asking {
            // One that panicked has said so.
            let _ = one.join();
        }
        self.most.load(Ordering::Relaxed)
    }
}

/// Requests on an engine, running or waiting.
fn in_flight(address: &str) -> anyhow::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    write!(stream, "GET /workers HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
    let workers: Value = serde_json::from_str(body)?;
    workers["workers"][0]["in_flight"]
        .as_u64()
        .context("no count")
}
