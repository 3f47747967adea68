//! `cargo xtask bench epp`: plays an Envoy before a picker, and says how long it took.
//!
//! A process of its own, so that the picker's CPU is the picker's alone. Requests come at random
//! moments at a given rate, whether earlier ones have been answered or not, all over one connection,
//! as the connections of one of Envoy's threads do.
//!
//! Prints one line of JSON: what each request took, what the picker's process spent meanwhile.

mod exchange;
mod texts;

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use epp::wire::external_processor_client::ExternalProcessorClient;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::transport::Endpoint;

use self::exchange::{Client, Times, exchange};
use self::texts::{Load, Texts};

/// As Envoy has them.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 24 << 20;
/// Before anything is counted, for what the first requests have left to do.
const REST: Duration = Duration::from_millis(300);

struct Arguments {
    /// `IP:PORT` of the picker, without TLS.
    address: String,
    /// The picker's process.
    process: u32,
    corpus: PathBuf,
    model: String,
    load: Load,
    rate: f64,
    /// Largest part of a body that is sent at once.
    part: usize,
    seed: u64,
}

/// All options are given, by a program.
fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| {
        let place = words.iter().position(|word| word == name);
        let value = place.and_then(|place| words.get(place + 1));
        value.cloned().ok_or_else(|| format!("{name} is missing"))
    };
    Ok(Arguments {
        address: value("--address")?,
        process: value("--process")?.parse()?,
        corpus: value("--corpus")?.into(),
        model: value("--model")?,
        load: Load {
            bytes: value("--bytes")?.parse()?,
            warm: value("--warm")?.parse()?,
            requests: value("--requests")?.parse()?,
        },
        rate: value("--rate")?.parse()?,
        part: value("--part")?.parse()?,
        seed: value("--seed")?.parse()?,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(arguments))
}

#[expect(
    clippy::print_stdout,
    reason = "the figures are what the program is for"
)]
async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let mut texts = Texts::read(&arguments.corpus, arguments.seed)?;
    let bodies = texts.bodies(&arguments.model, arguments.load);
    let pauses = texts.pauses(arguments.rate, bodies.measured.len());
    let channel = Endpoint::from_shared(format!("http://{}", arguments.address))?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .tcp_nodelay(true)
        .connect()
        .await?;
    let client = ExternalProcessorClient::new(channel);
    for body in bodies.before {
        exchange(client.clone(), body.into(), arguments.part).await?;
    }
    sleep(REST).await;
    let measured: Vec<Bytes> = bodies.measured.into_iter().map(Bytes::from).collect();
    let bytes: usize = measured.iter().map(Bytes::len).sum::<usize>() / measured.len().max(1);
    let before = cpu_milliseconds(arguments.process)?;
    let driven = drive(&client, measured, &pauses, arguments.part).await?;
    let cpu = cpu_milliseconds(arguments.process)? - before;
    let Driven {
        times,
        refused,
        wall,
        due,
    } = driven;
    let added: Vec<u128> = times.iter().map(|one| one.added.as_micros()).collect();
    let whole: Vec<u128> = times.iter().map(|one| one.whole.as_micros()).collect();
    println!(
        r#"{{"bytes":{bytes},"cpu_ms":{cpu},"refused":{refused},"wall_us":{},"due_us":{},"added_us":{added:?},"whole_us":{whole:?}}}"#,
        wall.as_micros(),
        due.as_micros(),
    );
    Ok(())
}

struct Driven {
    times: Vec<Times>,
    /// By a picker that has more to do than it can.
    refused: usize,
    /// Until the last one was done with.
    wall: Duration,
    /// When the last one was due.
    due: Duration,
}

/// Sends each request when it is due.
async fn drive(
    client: &Client,
    bodies: Vec<Bytes>,
    pauses: &[f64],
    part: usize,
) -> Result<Driven, Box<dyn Error>> {
    let began = Instant::now();
    let mut due = began;
    let mut tasks = JoinSet::new();
    for (body, pause) in bodies.into_iter().zip(pauses) {
        due += Duration::from_secs_f64(*pause);
        sleep_until(due).await;
        let (client, due) = (client.clone(), due);
        tasks.spawn(async move {
            let mut times = exchange(client, body, part).await?;
            times.whole = times.done - due;
            Ok::<_, exchange::Failure>(times)
        });
    }
    let (mut times, mut refused) = (Vec::new(), 0);
    while let Some(done) = tasks.join_next().await {
        match done? {
            Ok(one) => times.push(one),
            Err(exchange::Failure::Refused(_)) => refused += 1,
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(Driven {
        times,
        refused,
        wall: began.elapsed(),
        due: due - began,
    })
}

/// User plus system time of a process since its start.
fn cpu_milliseconds(process: u32) -> Result<u64, Box<dyn Error>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The command's name is in parentheses and may hold anything; count from behind it.
    let fields = stat.rsplit_once(')').ok_or("unreadable stat")?.1;
    let mut times = fields.split_whitespace().skip(11).take(2);
    // Linux reports in hundredths of a second on every platform we run on.
    times.try_fold(0, |sum, ticks| Ok(sum + 10 * ticks.parse::<u64>()?))
}
