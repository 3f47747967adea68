//! Processes on hosts of their own, and cables that are pulled.
//!
//! A host is a network namespace with one cable to a switch. A pulled cable is silence: no
//! connection is refused or closed, as it would be when a process dies. Needs rights that a
//! test rarely has, so `cargo xtask test --only hosts` runs it where they are had.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;

use crate::client::Streamed;
use crate::system::{
    Host, Process, cached_blocks, index_is_right, metric, until, until_workers, workers,
};
use crate::turns::{STREAMS, ask, begin_during, first_turns, percentile, second_turns, texts};

const SWITCH: &str = "switch";
const FRONTEND: &str = "10.77.0.1";
const BROKER: &str = "10.77.0.2";
const WORKERS: [&str; 3] = ["10.77.0.11", "10.77.0.12", "10.77.0.13"];
/// Us.
const CLIENT: &str = "10.77.0.254";

fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.expect("ip runs").success(), "ip {words}");
}

/// Hosts on one switch, by address. Their namespaces end with the one that this runs in.
#[derive(Debug)]
struct Network;

impl Network {
    fn build() -> Self {
        ip("link set lo up");
        // Its own address of hardware. Otherwise it takes one of its cables', and another one when
        // that cable is pulled, and nobody finds us for as long as they remember the first.
        ip(&format!(
            "link add {SWITCH} address 02:00:00:00:00:01 type bridge"
        ));
        ip(&format!("addr add {CLIENT}/24 dev {SWITCH}"));
        ip(&format!("link set {SWITCH} up"));
        for address in [FRONTEND, BROKER].into_iter().chain(WORKERS) {
            let cable = cable(address);
            ip(&format!("netns add {address}"));
            ip(&format!(
                "link add {cable} type veth peer name eth0 netns {address}"
            ));
            ip(&format!("link set {cable} master {SWITCH} up"));
            ip(&format!("-n {address} addr add {address}/24 dev eth0"));
            ip(&format!("-n {address} link set eth0 up"));
            ip(&format!("-n {address} link set lo up"));
        }
        Self
    }

    /// Takes a host off the switch. Its own end stays up, so that it sees nothing but silence.
    fn cut(&self, address: &str) {
        ip(&format!("link set {} nomaster", cable(address)));
    }

    fn reconnect(&self, address: &str) {
        ip(&format!("link set {} master {SWITCH}", cable(address)));
    }
}

fn cable(address: &str) -> String {
    format!("to-{}", address.rsplit('.').next().expect("it has parts"))
}

/// etcd and NATS on the broker's host.
#[derive(Debug)]
struct Broker {
    servers: [Child; 2],
}

impl Broker {
    fn start(folder: &std::path::Path) -> Self {
        let start = |program: &str, arguments: &str| {
            let mut command = Host::Named(BROKER).command(program);
            command.args(arguments.split(' ').filter(|word| !word.is_empty()));
            if program == "etcd" {
                command.arg("--data-dir").arg(folder);
            }
            let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
            quiet.spawn().expect("the server is installed")
        };
        let (client, peer) = (
            format!("http://{BROKER}:2379"),
            format!("http://{BROKER}:2380"),
        );
        let etcd = start(
            "etcd",
            &format!(
                "--name test --listen-client-urls {client} --advertise-client-urls {client} \
                 --listen-peer-urls {peer} --initial-advertise-peer-urls {peer} \
                 --initial-cluster test={peer}"
            ),
        );
        let nats = start("nats-server", &format!("-a {BROKER} -p 4222"));
        let broker = Self {
            servers: [etcd, nats],
        };
        for port in [2379, 4222] {
            wait_for(port);
        }
        broker
    }
}

fn wait_for(port: u16) {
    for _ in 0..300 {
        if TcpStream::connect((BROKER, port)).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("nobody listens on {BROKER}:{port}");
}

impl Drop for Broker {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // Fails only if it has ended already.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

fn are_right(count: usize) -> impl Fn(&[Value]) -> bool {
    move |workers| workers.len() == count && workers.iter().all(index_is_right)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs network namespaces: cargo xtask test --only hosts"]
async fn a_host_that_is_cut_off_costs_no_stream() {
    let network = Network::build();
    let folder = tempfile::tempdir().unwrap();
    let _broker = Broker::start(folder.path());
    let (etcd, nats) = (
        format!("http://{BROKER}:2379"),
        format!("nats://{BROKER}:4222"),
    );
    let plane = ["--discovery", "etcd", "--etcd", &etcd, "--nats", &nats];
    let _workers = WORKERS.map(|address| {
        let own = ["--host", address, "--events", "nats"];
        Process::worker_on(Host::Named(address), &[&plane[..], &own].concat())
    });
    let own = ["--host", FRONTEND];
    let frontend = Process::frontend_on(Host::Named(FRONTEND), &[&plane[..], &own].concat());
    until_workers(&frontend, 3).await;

    let undisturbed = undisturbed(&frontend).await;
    a_worker_is_cut_off(&network, &frontend, &undisturbed).await;
    the_broker_is_cut_off(&network, &frontend).await;
    the_frontend_is_cut_off(&network, &frontend).await;
}

/// The second turn of every conversation, and what is answered when nothing goes wrong.
struct Undisturbed {
    turns: Vec<Vec<Value>>,
    answers: Vec<Streamed>,
}

async fn undisturbed(frontend: &Process) -> Undisturbed {
    let first = ask(&frontend.address, &first_turns(), None).await;
    assert!(first.iter().all(Streamed::is_complete), "the first turns");
    let turns = second_turns(first_turns(), &first);
    let answers = ask(&frontend.address, &turns, None).await;
    assert!(answers.iter().all(Streamed::is_complete));
    Undisturbed { turns, answers }
}

async fn a_worker_is_cut_off(network: &Network, frontend: &Process, before: &Undisturbed) {
    let begun = Notify::new();
    let cut = async {
        begun.notified().await;
        network.cut(WORKERS[0]);
    };
    let asked = ask(&frontend.address, &before.turns, Some(&begun));
    let (answers, ()) = tokio::join!(asked, cut);
    let failed = answers.iter().find(|answer| !answer.is_complete());
    assert!(failed.is_none(), "{failed:?}");
    assert_eq!(texts(&answers), texts(&before.answers));
    let moved = metric(frontend, "dynamo_frontend_model_migration_total").await;
    assert!(moved > 0.0, "the worker that was cut off had streams");
    let gaps = answers.iter().map(|answer| answer.longest_gap).collect();
    let took = until("the index is right", frontend, are_right(2)).await;
    println!(
        "a worker's host cut off: {moved} of {STREAMS} streams moved; longest gap p99 {:?}; \
         index right after {took:?}",
        percentile(gaps, 0.99)
    );
    network.reconnect(WORKERS[0]);
    let took = until("it is back", frontend, are_right(3)).await;
    println!("reconnected: back and its index right after {took:?}");
    let again = ask(&frontend.address, &before.turns, None).await;
    assert_eq!(texts(&again), texts(&before.answers));
}

async fn the_broker_is_cut_off(network: &Network, frontend: &Process) {
    let before = cached_blocks(&workers(frontend).await);
    network.cut(BROKER);
    let url = frontend.address.as_str();
    let (turns, answers) = begin_during(url, Duration::from_secs(10)).await;
    let failed = answers.iter().find(|answer| !answer.is_complete());
    assert!(failed.is_none(), "{failed:?}");
    network.reconnect(BROKER);
    let right = are_right(3);
    let took = until("the index is right", frontend, |workers| {
        cached_blocks(workers) > before && right(workers)
    })
    .await;
    let again = ask(url, &second_turns(turns, &answers)[..20], None).await;
    assert!(again.iter().all(Streamed::is_complete));
    let hits = again.iter().filter(|answer| answer.cached_tokens > 0);
    println!(
        "the broker's host cut off for 10 s: {} requests, none failed; index right {took:?} after \
         it was back; {} of 20 second turns hit",
        answers.len(),
        hits.count()
    );
}

/// From the workers' side: a frontend that is silent gives its slots back and finds everything
/// again. Nobody can ask it anything meanwhile, so only what comes after is looked at.
async fn the_frontend_is_cut_off(network: &Network, frontend: &Process) {
    network.cut(FRONTEND);
    tokio::time::sleep(Duration::from_secs(10)).await;
    network.reconnect(FRONTEND);
    let took = until("all workers are back", frontend, are_right(3)).await;
    let answers = ask(&frontend.address, &first_turns(), None).await;
    assert!(answers.iter().all(Streamed::is_complete));
    println!("the frontend's host cut off for 10 s: all workers back after {took:?}");
}
