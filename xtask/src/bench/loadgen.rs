//! What the load generator costs, and how far its figures are from the truth.
//!
//! The shipped build of `homing loadgen` against a server of fixed latency that notes what it
//! really did. Both are processes of their own, so the CPU time is the client's alone, and
//! what the server's timers do is not the client's error. What is left between the server's
//! write and the client's figure is the network, the kernel's scheduling and the client.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::HOMING;
use super::server::cpu_of;

/// Tokens of an answer.
const TOKENS: &str = "200";

/// How long such an answer takes. Streams are opened over that time, so that answers begin
/// and end evenly and not all at once.
const ANSWER_SECONDS: f64 = 6.27;

/// Before this the streams are being opened.
const SETTLE: Duration = Duration::from_secs(8);

/// Ends with the benchmark.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Best effort: the benchmark is over either way.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn run(seconds: u64) -> anyhow::Result<()> {
    let (ttft, itl) = (super::mock::TTFT, super::mock::ITL);
    println!("server: TTFT {ttft:?}, a token every {itl:?}; client: homing loadgen\n");
    let usual = Measured::take(180, seconds)?;
    usual.print(180, ["≤ 1", "≤ 3", "≤ 15"])?;
    println!();
    // More than is asked for: it must hold the streams, and the machine sets the figures.
    let many = Measured::take(2000, seconds)?;
    many.print(2000, [""; 3])
}

struct Measured {
    /// What the client printed.
    table: String,
    /// What the server did.
    truth: Value,
    /// Of one core, in the middle of the run.
    cpu: f64,
}

impl Measured {
    fn take(streams: u32, seconds: u64) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let server = Command::new(program)
            .args(["bench", "mock-server"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut server = Process(server);
        let printed = server.0.stdout.take().context("the server has no output")?;
        let mut address = String::new();
        BufReader::new(printed).read_line(&mut address)?;
        let address = address.trim();
        let client = Command::new(HOMING)
            .args(["loadgen", "--target", &format!("http://{address}")])
            .args(["--concurrency", &streams.to_string()])
            .args([
                "--ramp",
                &format!("{:.1}", f64::from(streams) / ANSWER_SECONDS),
            ])
            .args(["--max-tokens", TOKENS, "--turns", "3"])
            .args(["--duration", &format!("{seconds}s")])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {HOMING}"))?;
        let mut client = Process(client);
        let busy = Duration::from_secs(seconds).saturating_sub(SETTLE);
        sleep(SETTLE);
        let before = cpu_of(client.0.id())?;
        sleep(busy);
        let cpu = (cpu_of(client.0.id())? - before).as_secs_f64() / busy.as_secs_f64();
        let mut table = String::new();
        let mut output = client.0.stdout.take().context("the client has no output")?;
        output.read_to_string(&mut table)?;
        ensure!(client.0.wait()?.success(), "the client failed:\n{table}");
        Ok(Self {
            table,
            truth: truth(address)?,
            cpu,
        })
    }

    fn print(&self, streams: u32, goals: [&str; 3]) -> anyhow::Result<()> {
        let [median, tail, share] = goals;
        println!(
            "{streams} streams{:>33} {:>9} {:>9} {:>7}",
            "server", "client", "error", "goal"
        );
        for (name, field) in [("TTFT", "ttft"), ("ITL", "itl")] {
            let [p50, p95, _] = self.row(name)?;
            for (share, shown, goal) in [("p50", p50, median), ("p95", p95, tail)] {
                let real = self.truth[field][share].as_f64().context("no truth")?;
                let what = format!("{name} {share}, ms");
                let error = shown - real;
                println!("  {what:<35} {real:>9.2} {shown:>9.1} {error:>9.2} {goal:>7}");
            }
        }
        let [lag, lag95, _] = self.row("own lag")?;
        println!(
            "  {:<45} {lag:>9.1} {lag95:>9.1}",
            "own lag p50 and p95, ms"
        );
        let cpu = 100.0 * self.cpu;
        let what = "client's CPU, % of one core";
        println!("  {what:<45} {cpu:>9.1} {share:>17}");
        let most = self.truth["most_open"].as_u64().context("no truth")?;
        println!("  {:<45} {most:>9}", "streams open at once");
        let summary = self
            .table
            .lines()
            .filter(|line| line.contains(" requests in "));
        summary.for_each(|line| println!("  {line}"));
        Ok(())
    }

    /// p50, p95 and p99 of a row of the client's table.
    fn row(&self, name: &str) -> anyhow::Result<[f64; 3]> {
        let row = self.table.lines().find_map(|line| line.strip_prefix(name));
        let row = row.with_context(|| format!("no row {name}:\n{}", self.table))?;
        let figures: Vec<f64> = row.split_whitespace().flat_map(str::parse).collect();
        let [p50, p95, p99, ..] = figures[..] else {
            anyhow::bail!("the row {name} has no figures: {row}");
        };
        Ok([p50, p95, p99])
    }
}

/// What the server says it did.
fn truth(address: &str) -> anyhow::Result<Value> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"GET /truth HTTP/1.1\r\nhost: mock\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece)?;
        answer.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&answer);
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && let Ok(truth) = serde_json::from_str(body)
        {
            return Ok(truth);
        }
        ensure!(read > 0, "the answer is not valid JSON: {text}");
    }
}
