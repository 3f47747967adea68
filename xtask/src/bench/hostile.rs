//! Whether clients that misbehave cost others more than clients that ask for the same and
//! behave.
//!
//! Conversations run three times against a fresh frontend with workers of its own: alone, beside
//! twenty guests that read what they asked for, and beside twenty that ask for the same and do
//! not read it, read a byte a second, hang up, close their HTTP/2 window, ask for more prompts
//! than there are free slots, or ask without pause. What guests ask for costs slots and tokens
//! either way; the difference between the second and the third run is what misbehaving costs.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::ensure;
use contract::random::Random;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::HOMING;
use super::figures::say;
use super::server::Server;
use crate::repository;

const CONVERSATIONS: &str = "180";
const WARMUP: u64 = 30;
/// How long a guest that does not read stays: longer than the server waits for it.
const STAY: Duration = Duration::from_secs(40);
const BATCH: usize = 128;
/// Requests of a greedy guest at once, of which its key allows four.
const AT_ONCE: usize = 40;
const STREAMS: u32 = 50;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Seconds of each of the three runs that count
    #[arg(long, default_value_t = 570)]
    seconds: u64,
    /// Workers of 64 slots each, for 180 conversations and the guests
    #[arg(long, default_value_t = 4)]
    workers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manners {
    Alone,
    Polite,
    Hostile,
}

/// How a hostile guest misbehaves.
#[derive(Clone, Copy, Debug)]
enum Kind {
    NeverReads,
    ByteASecond,
    HangsUp,
    ClosedWindow,
    Batch,
    Greedy,
}

const GUESTS: [(Kind, usize); 6] = [
    (Kind::NeverReads, 4),
    (Kind::ByteASecond, 4),
    (Kind::HangsUp, 4),
    (Kind::ClosedWindow, 2),
    (Kind::Batch, 3),
    (Kind::Greedy, 3),
];

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let keys = repository::target_directory()?.join("hostile-keys.toml");
    fs::write(&keys, key_file()?)?;
    let keys = keys.to_string_lossy();
    for manners in [Manners::Alone, Manners::Polite, Manners::Hostile] {
        let options = ["--api-key-file", &*keys];
        let server = Server::cluster(arguments.workers, &[], &options)?;
        let before = server.resident()?;
        let until = Instant::now() + Duration::from_secs(WARMUP + arguments.seconds);
        let guests = match manners {
            Manners::Alone => Vec::new(),
            Manners::Polite | Manners::Hostile => invite(&server, manners, until),
        };
        let table = converse(&server, arguments.seconds)?;
        for guest in guests {
            ensure!(guest.join().is_ok(), "a guest panicked");
        }
        say(&format!(
            "== {manners:?}: {} workers; frontend {} MB at first, {} MB at the end, {} MB at most\n{table}",
            arguments.workers,
            before / 1_000_000,
            server.resident()? / 1_000_000,
            server.most_resident()? / 1_000_000
        ));
    }
    Ok(())
}

fn key_file() -> anyhow::Result<String> {
    let mut file =
        "[[keys]]\nname = \"load\"\nkey = \"load\"\nshare = 100\nmax_requests = 400\n".to_owned();
    for (guest, kind) in kinds().enumerate() {
        // Each stream of a closed window is a request.
        let most = match kind {
            Kind::ClosedWindow => STREAMS,
            Kind::NeverReads | Kind::ByteASecond | Kind::HangsUp | Kind::Batch | Kind::Greedy => 4,
        };
        let key = key(guest);
        writeln!(
            file,
            "[[keys]]\nname = \"guest-{guest}\"\nkey = \"{key}\"\nmax_requests = {most}"
        )?;
    }
    Ok(file)
}

/// Of each guest.
fn kinds() -> impl Iterator<Item = Kind> {
    let guests = GUESTS.iter();
    guests.flat_map(|(kind, count)| std::iter::repeat_n(*kind, *count))
}

fn key(guest: usize) -> String {
    format!("guest-{guest}-key")
}

/// The conversations, as the load generator sums them up.
fn converse(server: &Server, seconds: u64) -> anyhow::Result<String> {
    let done = Command::new(HOMING)
        .args(["loadgen", "--target", &format!("http://{}", server.address)])
        .args(["--api-key-env", "KEY", "--concurrency", CONVERSATIONS])
        .args(["--seed", "7", "--warmup", &format!("{WARMUP}s")])
        .args(["--duration", &format!("{}s", WARMUP + seconds)])
        .env("KEY", "load")
        .stderr(Stdio::null())
        .output()?;
    ensure!(done.status.success(), "the load generator failed");
    Ok(String::from_utf8(done.stdout)?)
}

fn invite(server: &Server, manners: Manners, until: Instant) -> Vec<thread::JoinHandle<()>> {
    let guests = kinds().enumerate().map(|(number, kind)| {
        let guest = Guest {
            address: server.address.clone(),
            model: server.model.clone(),
            key: key(number),
            polite: manners == Manners::Polite,
            until,
        };
        thread::spawn(move || {
            let mut random = Random::new(number as u64);
            while Instant::now() < until {
                // Whoever is refused or cut off comes again.
                if guest.visit(kind, &mut random).is_err() {
                    thread::sleep(Duration::from_secs(1));
                }
            }
        })
    });
    guests.collect()
}

#[derive(Clone, Debug)]
struct Guest {
    address: String,
    model: String,
    key: String,
    polite: bool,
    until: Instant,
}

impl Guest {
    fn visit(&self, kind: Kind, random: &mut Random) -> anyhow::Result<()> {
        let began = Instant::now();
        let stay = match kind {
            Kind::NeverReads => {
                self.ask(&self.chat(400, random), |stream| {
                    self.leave_unread(stream, STAY)
                })?;
                STAY
            }
            Kind::ByteASecond => {
                self.ask(&self.chat(200, random), |stream| self.drip(stream))?;
                self.until.saturating_duration_since(began)
            }
            Kind::HangsUp => {
                let tokens = random.below(40) as u32 + 1;
                let asked = if self.polite { tokens } else { 100 };
                // About as much of the answer as the polite one asks for.
                let bytes = 250 * tokens as usize;
                self.ask(&self.chat(asked, random), |stream| read_some(stream, bytes))?;
                Duration::from_millis(500)
            }
            Kind::ClosedWindow => {
                self.streams(random)?;
                STAY
            }
            Kind::Batch => {
                let prompts: Vec<String> = (0..BATCH).map(|n| format!("Batch {n}.")).collect();
                let body = json!({ "model": self.model, "prompt": prompts, "max_tokens": 2 });
                self.ask(&self.post("/v1/completions", &body), read_all)?;
                Duration::from_secs(10)
            }
            Kind::Greedy => {
                self.at_once(AT_ONCE, 16, random);
                Duration::from_secs(1)
            }
        };
        let left = self.until.saturating_duration_since(Instant::now());
        thread::sleep(stay.saturating_sub(began.elapsed()).min(left));
        Ok(())
    }

    /// Sends a request; a polite guest reads the answer, a hostile one does as `hostile` says.
    fn ask(
        &self,
        request: &[u8],
        hostile: impl FnOnce(&mut TcpStream) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut stream = self.connect()?;
        stream.write_all(request)?;
        match self.polite {
            true => read_all(&mut stream),
            false => hostile(&mut stream),
        }
    }

    fn connect(&self) -> anyhow::Result<TcpStream> {
        let stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(stream)
    }

    fn leave_unread(&self, stream: &TcpStream, stay: Duration) -> anyhow::Result<()> {
        thread::sleep(stay.min(self.until.saturating_duration_since(Instant::now())));
        Ok(stream.shutdown(Shutdown::Both)?)
    }

    fn drip(&self, stream: &mut TcpStream) -> anyhow::Result<()> {
        while Instant::now() < self.until && stream.read(&mut [0])? > 0 {
            thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    /// Many short requests at the same time, each over a connection of its own.
    fn at_once(&self, count: usize, tokens: u32, random: &mut Random) {
        thread::scope(|scope| {
            for _ in 0..count {
                let request = self.chat(tokens, random);
                scope.spawn(move || self.ask(&request, read_all));
            }
        });
    }

    /// Many answers over one HTTP/2 connection that takes none of them.
    fn streams(&self, random: &mut Random) -> anyhow::Result<()> {
        const TOKENS: u32 = 40;
        if self.polite {
            self.at_once(STREAMS as usize, TOKENS, random);
            return Ok(());
        }
        let mut stream = self.connect()?;
        let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        // SETTINGS_INITIAL_WINDOW_SIZE is 0.
        frame(&mut sent, 4, 0, 0, &[0, 4, 0, 0, 0, 0]);
        for number in 0..STREAMS {
            let body = self.question(TOKENS, random).to_string();
            let id = 2 * number + 1;
            frame(&mut sent, 1, 4, id, &self.header_block());
            frame(&mut sent, 0, 1, id, body.as_bytes());
        }
        stream.write_all(&sent)?;
        self.leave_unread(&stream, STAY)
    }

    /// Every field as a literal that is not indexed.
    fn header_block(&self) -> Vec<u8> {
        let authorization = format!("Bearer {}", self.key);
        let mut block = Vec::new();
        for (name, value) in [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", "/v1/chat/completions"),
            (":authority", "localhost"),
            ("authorization", &authorization),
            ("content-type", "application/json"),
        ] {
            // None is longer than 126 bytes, so a length is one byte.
            block.extend([0, name.len() as u8]);
            block.extend(name.as_bytes());
            block.push(value.len() as u8);
            block.extend(value.as_bytes());
        }
        block
    }

    fn chat(&self, tokens: u32, random: &mut Random) -> Vec<u8> {
        self.post("/v1/chat/completions", &self.question(tokens, random))
    }

    fn question(&self, tokens: u32, random: &mut Random) -> Value {
        let content = format!("Question {}.", random.next_u64());
        json!({
            "model": self.model,
            "messages": [{ "role": "user", "content": content }],
            "max_tokens": tokens, "min_tokens": tokens, "stream": true,
        })
    }

    fn post(&self, path: &str, body: &Value) -> Vec<u8> {
        let body = body.to_string();
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        )
        .into_bytes()
    }
}

/// An HTTP/2 frame of a type, with flags, on a stream.
fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

fn read_all(stream: &mut TcpStream) -> anyhow::Result<()> {
    read_some(stream, usize::MAX)
}

/// Reads up to so many bytes and hangs up.
fn read_some(stream: &mut TcpStream, most: usize) -> anyhow::Result<()> {
    let (mut buffer, mut left) = (vec![0; 8 << 10], most);
    while left > 0 {
        let size = buffer.len().min(left);
        match stream.read(&mut buffer[..size])? {
            0 => return Ok(()),
            read => left -= read,
        }
    }
    Ok(())
}
