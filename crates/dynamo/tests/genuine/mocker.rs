//! Dynamo's own simulated worker, started and killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::json;

/// Tokens per block.
pub(crate) const BLOCK: usize = 16;
/// The folder where `cargo xtask test --only dynamo` installs it.
const ENVIRONMENT: &str = "venv-dynamo";

/// Where it registers.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Folder(PathBuf),
    /// The address of an etcd.
    Etcd(String),
}

/// A running process; killed, without a farewell, when dropped.
#[derive(Debug)]
pub(crate) struct Mocker(Child);

impl Mocker {
    /// Starts workers of the model in `folder` (see [`write_model`]). `options` are further
    /// words on the command line.
    pub(crate) fn start(model: &Path, place: &Place, options: &[&str]) -> Self {
        let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let target = temporary.parent().expect("it is in the build directory");
        let python = target.join(ENVIRONMENT).join("bin/python");
        assert!(
            python.is_file(),
            "{} is missing: run `cargo xtask test --only dynamo`",
            python.display()
        );
        let mut command = Command::new(python);
        command
            .args([
                "-m",
                "dynamo.mocker",
                "--model-name",
                "tiny",
                "--model-path",
            ])
            .arg(model)
            .args(["--request-plane", "tcp", "--event-plane", "zmq"])
            .arg(format!("--block-size={BLOCK}"))
            .args(options)
            .env("HF_HUB_OFFLINE", "1")
            .env("DYN_LOG", "warn")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        match place {
            Place::Folder(folder) => command
                .args(["--discovery-backend", "file"])
                .env("DYN_FILE_KV", folder),
            Place::Etcd(address) => command
                .args(["--discovery-backend", "etcd"])
                .env("ETCD_ENDPOINTS", address)
                .env("ETCD_LEASE_TTL", "5"),
        };
        Self(command.spawn().expect("python runs"))
    }
}

impl Drop for Mocker {
    fn drop(&mut self) {
        // Fails only if it has ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes the smallest model that Dynamo accepts: a thousand words.
pub(crate) fn write_model(folder: &Path) {
    let write = |name: &str, content: &serde_json::Value| {
        fs::write(folder.join(name), content.to_string()).expect("the folder can be written");
    };
    let special = ["<unk>", "<s>", "</s>"];
    let words = (3..1000).map(|number| format!("w{number}"));
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
    write("tokenizer.json", &tokenizer);
    let template = "{% for message in messages %}{{ message['content'] }} {% endfor %}";
    let settings = json!({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>",
        "eos_token": "</s>", "unk_token": "<unk>", "model_max_length": 1_000_000,
        "chat_template": template});
    write("tokenizer_config.json", &settings);
    let config = json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "bos_token_id": 1, "eos_token_id": 2, "hidden_size": 64, "intermediate_size": 128,
        "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2,
        "vocab_size": 1000, "max_position_embeddings": 1_000_000, "torch_dtype": "float16"});
    write("config.json", &config);
    write(
        "generation_config.json",
        &json!({"bos_token_id": 1, "eos_token_id": 2}),
    );
}
