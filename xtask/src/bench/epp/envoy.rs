//! A genuine Envoy with two listeners before the same servers, one of which asks the picker.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::super::client::{Client, percentile, post};
use super::picker::Picker;
use super::servers::Servers;
use super::table::{Case, Figures, Row, milliseconds};
use super::texts::Load;
use crate::ci::genuine_envoy;
use crate::repository;

const TRIES: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);
/// Writes the configuration that the tests of the picker use.
const CONFIGURE: &str = "import gateway, json, sys; a = json.loads(sys.argv[1]); \
    print(json.dumps(gateway.configuration(a['port'], a['picker'], a['servers'], 'override_host', \
    bare_port=a['bare_port'])))";

/// Stopped on drop.
#[derive(Debug)]
pub(super) struct Gateway {
    child: Child,
    /// Of the listener with the picker, and of the one without.
    picked: u16,
    bare: u16,
}

impl Gateway {
    pub(super) fn start(picker: &str, servers: &Servers) -> anyhow::Result<Self> {
        let python = genuine_envoy()?;
        let [picked, bare] = [free_port()?, free_port()?];
        let wanted = json!({"port": picked, "bare_port": bare, "picker": picker,
            "servers": servers.addresses.iter().map(ToString::to_string).collect::<Vec<_>>()});
        let written = Command::new(&python)
            .args(["-c", CONFIGURE, &wanted.to_string()])
            .current_dir(repository::root().join("tests/epp"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(written.status.success(), "no configuration for Envoy");
        let folder = repository::target_directory()?.join("bench-epp");
        fs::create_dir_all(&folder)?;
        let file = folder.join("envoy.json");
        fs::write(&file, written.stdout)?;
        let program = python.parent().unwrap_or(Path::new("")).join("envoy");
        let child = Command::new(&program)
            .arg("-c")
            .arg(&file)
            .args(["--concurrency", "1", "--use-dynamic-base-id", "-l", "error"])
            .arg("--log-path")
            .arg(folder.join("envoy.log"))
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let gateway = Self {
            child,
            picked,
            bare,
        };
        for port in [picked, bare] {
            wait_for(port)?;
        }
        Ok(gateway)
    }

    /// Bytes per token, by a text of so many bytes.
    pub(super) fn sample(&self, picker: &Picker, bytes: usize) -> anyhow::Result<f64> {
        let load = Load {
            bytes,
            warm: false,
            requests: 1,
        };
        let case = Case {
            tokens: 0,
            load,
            rate: 1000,
        };
        let row = self.measure(picker, case)?;
        Ok(row.bytes as f64 / picker.last_prompt_tokens()? as f64)
    }

    /// First without the picker, then with it.
    pub(super) fn measure(&self, picker: &Picker, case: Case) -> anyhow::Result<Row> {
        let (bodies, pauses) = super::bodies(case)?;
        let bytes: usize = bodies.measured.iter().map(String::len).sum();
        let bytes = bytes / bodies.measured.len().max(1);
        let requests = |bodies: Vec<String>| -> Vec<Arc<Vec<u8>>> {
            let requests = bodies.iter().map(|body| post("/v1/chat/completions", body));
            requests.map(Arc::new).collect()
        };
        let (before, measured) = (requests(bodies.before), requests(bodies.measured));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let once = vec![0.0; before.len()];
            drive(self.bare, &before[..1], &once).await?;
            let without = drive(self.bare, &measured, &pauses).await?;
            for body in before.chunks(1) {
                drive(self.picked, body, &once).await?;
            }
            let cpu = picker.cpu()?;
            let with = drive(self.picked, &measured, &pauses).await?;
            let cpu = picker.cpu()? - cpu;
            compare(case, bytes, [without, with], cpu)
        })
    }
}

/// The difference at the same place of the order: who is slow with the picker need not be who is slow
/// without.
fn compare(
    case: Case,
    bytes: usize,
    [mut without, mut with]: [Driven; 2],
    cpu: Duration,
) -> anyhow::Result<Row> {
    let mut shown = String::new();
    for (share, name) in [(0.50, "p50"), (0.99, "p99")] {
        let bare = milliseconds(percentile(&mut without.first, share)?);
        let picked = milliseconds(percentile(&mut with.first, share)?);
        shown.push_str(&format!("{name} {bare:.2} / {picked:.2}  "));
    }
    let pairs = with.first.iter().zip(&without.first);
    let added = pairs.map(|(with, without)| with.saturating_sub(*without));
    let row = Row::new(
        case,
        bytes,
        Figures {
            cpu,
            refused: 0,
            wall: with.wall,
            due: with.due,
            added: added.collect(),
            whole: with.whole,
        },
    )?;
    Ok(row.remark(shown))
}

/// What a listener's clients saw.
struct Driven {
    /// To the first event, from the request's first byte.
    first: Vec<Duration>,
    /// To the end, from when it was due.
    whole: Vec<Duration>,
    wall: Duration,
    due: Duration,
}

/// Sends each request when it is due, over a connection that is free or a new one.
async fn drive(port: u16, requests: &[Arc<Vec<u8>>], pauses: &[f64]) -> anyhow::Result<Driven> {
    let address = format!("127.0.0.1:{port}");
    let free = Arc::new(Mutex::new(Vec::new()));
    let began = Instant::now();
    let mut due = began;
    let mut tasks = JoinSet::new();
    for (request, pause) in requests.iter().zip(pauses) {
        due += Duration::from_secs_f64(*pause);
        sleep_until(due).await;
        let (request, free) = (Arc::clone(request), Arc::clone(&free));
        let (address, due) = (address.clone(), due);
        tasks.spawn(async move {
            let known = free.lock().pop();
            let mut client = match known {
                Some(client) => client,
                None => Client::connect(&address).await?,
            };
            let served = client.request(&request).await?;
            free.lock().push(client);
            anyhow::Ok((served.first, due.elapsed()))
        });
    }
    let (mut first, mut whole) = (Vec::new(), Vec::new());
    while let Some(done) = tasks.join_next().await {
        let (one, all) = done??;
        first.push(one);
        whole.push(all);
    }
    Ok(Driven {
        first,
        whole,
        wall: began.elapsed(),
        due: due - began,
    })
}

fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}

fn wait_for(port: u16) -> anyhow::Result<()> {
    for _ in 0..TRIES {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
    bail!("Envoy does not listen; its log is in bench-epp under the build directory")
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Best effort: the benchmark is over either way.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
