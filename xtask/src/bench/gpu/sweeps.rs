//! The frontend, and the sweeps through it: both are programs of `homing`.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::arguments::{Arguments, Texts};
use super::group::Group;
use super::rival::Rival;
use super::{Running, probe};

/// Texts that conversations share, as in the published load.
const POOL: u32 = 10;
/// For the frontend to have found the servers, which serve by then.
const PATIENCE: u32 = 60;

pub(super) fn frontend(
    homing: &Path,
    arguments: &Arguments,
    servers: usize,
    logs: &Path,
) -> anyhow::Result<Group> {
    let upstream = |server| {
        format!(
            "{},events=tcp://127.0.0.1:{},replay=tcp://127.0.0.1:{}",
            upstream(arguments, server),
            arguments.events_port(server),
            arguments.replay_port(server),
        )
    };
    let mut command = Command::new(homing);
    command
        .arg("frontend")
        .arg(format!("--http-port={}", arguments.frontend_port()))
        .arg("--model-path")
        .arg(&arguments.model_path)
        .arg(format!("--model-name={}", arguments.model_name()))
        .arg(format!("--max-context-tokens={}", arguments.max_model_len))
        .arg(format!("--kv-cache-block-size={}", arguments.block_size))
        .args((0..servers).map(upstream));
    let log = logs.join("frontend.log");
    Group::start("the frontend", &mut command, Some(&log))
}

fn upstream(arguments: &Arguments, server: usize) -> String {
    format!(
        "--upstream=vllm=http://127.0.0.1:{},slots={},name=vllm-{}",
        arguments.server_port(server),
        arguments.max_num_seqs,
        server + 1
    )
}

/// A profile of the servers, measured through their API.
pub(super) fn calibration(
    homing: &Path,
    arguments: &Arguments,
    servers: usize,
    out: &Path,
    rounds: u32,
) -> anyhow::Result<Group> {
    let mut command = Command::new(homing);
    command
        .arg("calibrate")
        .arg("--model-path")
        .arg(&arguments.model_path)
        .arg(format!("--model-name={}", arguments.model_name()))
        .arg(format!("--kv-cache-block-size={}", arguments.block_size))
        .arg(format!("--repeats={rounds}"))
        .arg("--output")
        .arg(out.join("profile.toml"))
        .args((0..servers).map(|server| upstream(arguments, server)));
    Group::start("the calibration", &mut command, None)
}

/// Waits until every server is a worker of the frontend.
pub(super) async fn until_joined(
    arguments: &Arguments,
    servers: usize,
    running: &mut Running,
) -> anyhow::Result<()> {
    let mut joined = 0;
    for _ in 0..PATIENCE {
        tokio::time::sleep(Duration::from_secs(1)).await;
        running.check_alive()?;
        let workers = probe::get(arguments.frontend_port(), "/workers").await;
        let workers = workers.unwrap_or_default();
        let workers = serde_json::from_str::<serde_json::Value>(&workers).unwrap_or_default();
        joined = workers["workers"].as_array().map_or(0, Vec::len);
        if joined == servers {
            return Ok(());
        }
    }
    let frontend = running.routers.first().context("no frontend runs")?;
    let what = format!("has {joined} of {servers} servers after {PATIENCE} s");
    bail!("{}", frontend.said(&what))
}

/// One sweep, into a folder of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sweep<'a> {
    pub(super) homing: &'a Path,
    pub(super) out: &'a Path,
    pub(super) texts: Texts,
    pub(super) rivals: &'a [Rival],
    pub(super) time_left: Option<Duration>,
}

impl Sweep<'_> {
    pub(super) fn start(&self, arguments: &Arguments) -> anyhow::Result<Group> {
        let folder = self.texts.folder();
        // Named without a folder: the plan holds this name, and must be the same wherever the
        // results are moved to before they are resumed.
        let workload = format!("{folder}.toml");
        fs::write(self.out.join(&workload), self.workload(arguments))?;
        let mut command = Command::new(self.homing);
        command
            .current_dir(self.out)
            .arg("sweep")
            .arg(format!(
                "--target=http://127.0.0.1:{}",
                arguments.frontend_port()
            ))
            .arg(format!("--model={}", arguments.model_name()))
            .arg(format!("--workload={workload}"))
            .arg(format!("--levels={}", arguments.levels_of(self.texts)))
            .arg(format!("--modes={}", arguments.modes_of(self.texts)))
            .arg(format!("--repeats={}", arguments.repeats_of(self.texts)))
            .arg(format!("--warmup={}s", arguments.warmup))
            .arg(format!("--settle={}s", arguments.settle))
            .arg(format!("--window={}s", arguments.seconds))
            .arg("--order=random")
            .arg(format!("--output={folder}"));
        if let Some(left) = self.time_left {
            command.arg(format!("--time-limit={}s", left.as_secs()));
        }
        if arguments.no_drain {
            command.arg("--no-drain");
        }
        if !self.rivals.is_empty() {
            let beside = |rival: &Rival| format!("{}=http://127.0.0.1:{}", rival.name, rival.port);
            let beside: Vec<String> = self.rivals.iter().map(beside).collect();
            command.arg(format!("--beside={}", beside.join(",")));
        }
        Group::start("the sweep", &mut command, None)
    }

    /// A file as `homing sweep --workload` reads it. The numbers of tokens are for simulated runs,
    /// which this has none of: our articles are as long as that.
    fn workload(&self, arguments: &Arguments) -> String {
        let (about, starters) = match self.texts {
            Texts::Shared => ("Ten shared texts", format!("{{ pool = {POOL} }}")),
            Texts::Own => ("A text per conversation", "{ unique = true }".to_owned()),
        };
        let limit = arguments
            .text_limit
            .map_or(String::new(), |limit| format!("text_limit = {limit}\n"));
        format!(
            "about = \"{about}, three to five turns, answers of {max_tokens} tokens at most\"\n\n\
             [conversations]\n\
             turns = [3, 5]\n\
             starters = {starters}\n\
             {limit}\
             starter_tokens = [3500, 4000]\n\
             follow_up_tokens = [20, 40]\n\
             max_tokens = {max_tokens}\n\
             starts_per_second = {starts}\n",
            max_tokens = arguments.max_tokens,
            starts = arguments.starts_per_second,
        )
    }
}
