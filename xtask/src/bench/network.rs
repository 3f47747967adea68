//! What the network plane costs: the same load on workers in the frontend's process and on
//! workers in processes of their own, by turns, so that both meet the same machine.
//!
//! CPU is that of all processes of a side together.

use std::time::Duration;

use super::figures::say;
use super::frontend::{Kind, Load, Prompts, drive, report};
use super::server::Server;

/// How often both sides take their turn.
const ROUNDS: usize = 3;
const WORKERS: usize = 3;

pub(crate) fn run(seconds: u64) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let seconds = Duration::from_secs(seconds);
    say("zero-delay workers, everything on the same machine, streaming");
    for round in 1..=ROUNDS {
        for side in ["in process", "over gRPC"] {
            let server = match side {
                "in process" => Server::start(&["--profile", "zero-delay", "--workers", "3"])?,
                _ => Server::cluster(WORKERS, &["--profile", "zero-delay"], &[])?,
            };
            let prompts = runtime.block_on(Prompts::new(&server))?;
            for (name, clients, kind, max_tokens) in [
                ("200-token prompt, 1 client", 1, Kind::Short, 1),
                ("3,500-token warm prompt, 1 client", 1, Kind::Warm, 1),
                ("1,000-token answers, 8 clients", 8, Kind::Short, 1000),
            ] {
                let load = Load::new(clients, kind, max_tokens);
                let measured = runtime.block_on(drive(&server, &prompts, load, seconds))?;
                report(&format!("{round} {side}: {name}"), measured)?;
            }
        }
    }
    Ok(())
}
