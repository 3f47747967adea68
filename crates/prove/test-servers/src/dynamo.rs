//! Genuine Dynamo processes for tests and benchmarks: its simulated worker and its frontend.
//!
//! Public because the program that finds such workers tests against them too. They come from
//! PyPI (`tests/dynamo/requirements.txt`); `cargo xtask test --only dynamo` installs them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

/// Words that the model of [`write_model`] knows: `w3` and so on. Simulated answers are of the second
/// thousand.
pub const WORDS: std::ops::Range<u32> = 3..3000;

/// Where workers register.
#[derive(Clone, Debug)]
pub enum RegisterAt {
    Folder(PathBuf),
    /// The address of an etcd.
    Etcd(String),
}

/// How workers are reached.
#[derive(Clone, Debug, Default)]
pub enum Planes {
    /// Requests over TCP, events over ZeroMQ.
    #[default]
    Direct,
    /// Requests over TCP, events over the NATS server at this address.
    NatsEvents(String),
    /// Both over the NATS server at this address.
    Nats(String),
}

/// A Python with Dynamo in it, a model, and where to register.
#[derive(Clone, Debug)]
pub struct Setting {
    pub python: PathBuf,
    /// A folder as [`write_model`] writes it.
    pub model: PathBuf,
    /// The name under which it is served.
    pub name: String,
    pub place: RegisterAt,
    pub planes: Planes,
    /// Tokens per block.
    pub block_size: usize,
}

/// A running process; killed, without a farewell, when dropped.
#[derive(Debug)]
pub struct Genuine(Child);

impl Setting {
    /// Starts workers. `options` are further words on the command line.
    pub fn mocker(&self, options: &[&str]) -> io::Result<Genuine> {
        let mut command = self.command("dynamo.mocker");
        command.args(["--model-name", &self.name, "--model-path"]);
        command.arg(&self.model);
        command.arg(format!("--block-size={}", self.block_size));
        Genuine::start(command.args(options))
    }

    /// Starts Dynamo's own frontend, with its KV router.
    pub fn frontend(&self, port: u16) -> io::Result<Genuine> {
        let mut command = self.command("dynamo.frontend");
        command.args(["--router-mode", "kv", "--http-host", "127.0.0.1"]);
        command.arg(format!("--http-port={port}"));
        command.arg(format!("--kv-cache-block-size={}", self.block_size));
        Genuine::start(&mut command)
    }

    fn command(&self, module: &str) -> Command {
        let mut command = Command::new(&self.python);
        command
            .args(["-m", module])
            .env("HF_HUB_OFFLINE", "1")
            .env("DYN_LOG", "error")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let (requests, events, server) = match &self.planes {
            Planes::Direct => ("tcp", "zmq", None),
            Planes::NatsEvents(url) => ("tcp", "nats", Some(url)),
            Planes::Nats(url) => ("nats", "nats", Some(url)),
        };
        command.args(["--request-plane", requests, "--event-plane", events]);
        command.envs(server.map(|url| ("NATS_SERVER", url)));
        match &self.place {
            RegisterAt::Folder(folder) => command
                .args(["--discovery-backend", "file"])
                .env("DYN_FILE_KV", folder),
            RegisterAt::Etcd(address) => command
                .args(["--discovery-backend", "etcd"])
                .env("ETCD_ENDPOINTS", address)
                .env("ETCD_LEASE_TTL", "5"),
        };
        command
    }
}

impl Genuine {
    /// Starts a program of Dynamo's.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        command.spawn().map(Self)
    }

    /// Of the process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Genuine {
    fn drop(&mut self) {
        // Fails only if it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes about the smallest model that Dynamo accepts: a few thousand words.
pub fn write_model(folder: &Path) -> io::Result<()> {
    let write =
        |name: &str, content: &serde_json::Value| fs::write(folder.join(name), content.to_string());
    let special = ["<unk>", "<s>", "</s>"];
    let words = WORDS.map(|number| format!("w{number}"));
    let vocabulary = special.iter().map(ToString::to_string).chain(words);
    let vocabulary: serde_json::Map<_, _> = vocabulary
        .enumerate()
        .map(|(number, word)| (word, json!(number)))
        .collect();
    let added = special.iter().enumerate().map(|(id, content)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false, "special": true})
    });
    let tokenizer = json!({"version": "1.0", "truncation": null, "padding": null,
        "added_tokens": added.collect::<Vec<_>>(), "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}});
    write("tokenizer.json", &tokenizer)?;
    let template = "{% for message in messages %}{{ message['content'] }} {% endfor %}";
    let settings = json!({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>",
        "eos_token": "</s>", "unk_token": "<unk>", "model_max_length": 1_000_000,
        "chat_template": template});
    write("tokenizer_config.json", &settings)?;
    let config = json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "bos_token_id": 1, "eos_token_id": 2, "hidden_size": 64, "intermediate_size": 128,
        "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2,
        "vocab_size": WORDS.end, "max_position_embeddings": 1_000_000, "torch_dtype": "float16"});
    write("config.json", &config)?;
    write(
        "generation_config.json",
        &json!({"bos_token_id": 1, "eos_token_id": 2}),
    )
}
