//! Pulls from a stand-in for the hub that cuts off, lies and is busy.

mod server;

use std::fs;

use self::server::{COMMIT, Server};
use super::*;
use crate::hub::listing::sha256_in;

fn weights(seed: u8) -> Vec<u8> {
    (0..300_000_u32).map(|at| (at % 253) as u8 ^ seed).collect()
}

struct Bench {
    server: Server,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(files: &[(&str, &[u8])]) -> Self {
        Self {
            server: Server::start(files),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    /// A model in two shards, and what is none of it.
    fn sharded() -> Self {
        let (one, two) = (weights(1), weights(2));
        Self::new(&[
            ("README.md", b"read me"),
            ("config.json", b"{}"),
            ("hf_quant_config.json", b"{}"),
            ("tokenizer.json", b"{\"a\": 1}"),
            ("tokenizer_config.json", b"{}"),
            ("chat_template.jinja", b"{{ x }}"),
            ("model-00001-of-00002.safetensors", &one),
            ("model-00002-of-00002.safetensors", &two),
            ("model.safetensors.index.json", b"{}"),
            ("consolidated.safetensors", &two),
            ("pytorch_model.bin", &two),
            ("onnx/model.safetensors", &two),
        ])
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("model")
    }

    async fn pull(&self, name: &str) -> Result<PathBuf, PullError> {
        self.pull_and_tell(name, &mut |_| {}).await
    }

    async fn pull_and_tell(&self, name: &str, report: Report<'_>) -> Result<PathBuf, PullError> {
        let hub = Hub {
            endpoint: format!("http://{}/", self.server.address),
            token: Some("secret".to_owned()),
            pause: Duration::from_millis(1),
        };
        let reference = Reference::parse(name).unwrap().unwrap();
        hub.pull(&reference, &self.place(), report).await
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let names = fs::read_dir(self.folder.path().join(folder)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

const MODEL: [&str; 9] = [
    "chat_template.jinja",
    "config.json",
    "hf_quant_config.json",
    "homing.json",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
];

#[tokio::test]
async fn takes_the_files_of_a_model() {
    let bench = Bench::sharded();
    let mut told = Vec::new();
    let mut tell = |progress| told.push(progress);
    let pulled = bench.pull_and_tell("some/model", &mut tell).await;
    assert_eq!(pulled.unwrap(), bench.place());
    assert_eq!(bench.names("model"), MODEL);
    assert_eq!(bench.names("."), ["model"]);
    let file = bench.place().join("model-00002-of-00002.safetensors");
    assert_eq!(fs::read(file).unwrap(), weights(2));
    assert_eq!(told[0].step, Step::Listing);
    assert_eq!(told.last().unwrap().percent(), Some(100));
    assert!(
        told[1..].iter().all(|told| told.total == Some(600_023)),
        "{told:?}"
    );
    assert!(told.iter().map(|told| told.done).is_sorted());

    let record = Record::read(&bench.place()).unwrap();
    assert_eq!(
        (record.name.as_str(), record.commit.as_str()),
        ("some/model", COMMIT)
    );
    assert_eq!(record.licence.as_deref(), Some("apache-2.0"));
    for asked in bench.server.asked() {
        let home = !asked.path.starts_with("/elsewhere/");
        assert_eq!(asked.token.is_some(), home, "{asked:?}");
    }

    // The same commit again: only the list is looked at.
    bench.pull("some/model").await.unwrap();
    assert_eq!(bench.server.asked().len(), 1);
}

#[tokio::test]
async fn goes_on_where_it_was_cut_off() {
    let bench = Bench::sharded();
    let shard = "model-00001-of-00002.safetensors";
    for ignores_ranges in [false, true] {
        {
            let mut state = bench.server.state.lock();
            state.cut = Some((shard.to_owned(), 123_456));
            state.ignores_ranges = ignores_ranges;
        }
        bench.pull("some/model").await.unwrap();
        assert_eq!(fs::read(bench.place().join(shard)).unwrap(), weights(1));
        let asked = bench.server.asked();
        let ranges = asked.iter().filter_map(|asked| asked.range.clone());
        let mut ranges: Vec<String> = ranges.collect();
        ranges.dedup();
        assert_eq!(ranges, ["bytes=123456-"]);
        fs::remove_dir_all(bench.place()).unwrap();
    }
}

#[tokio::test]
async fn a_later_pull_goes_on_too() {
    let bench = Bench::sharded();
    bench.pull("some/model").await.unwrap();
    // As an interrupted pull would have left it.
    let gathering = bench.folder.path().join("model.partial");
    fs::rename(bench.place(), &gathering).unwrap();
    let shard = "model-00002-of-00002.safetensors";
    fs::remove_file(gathering.join(shard)).unwrap();
    let partial = gathering.join(format!("{shard}.partial"));
    fs::write(&partial, &weights(2)[..1000]).unwrap();
    bench.server.asked();
    bench.pull("some/model").await.unwrap();
    assert_eq!(fs::read(bench.place().join(shard)).unwrap(), weights(2));
    let asked = bench.server.asked();
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(asked[2].range.as_deref(), Some("bytes=1000-"));

    // What is left there is from another file: seen by the hash, and fetched again.
    fs::rename(bench.place(), &gathering).unwrap();
    fs::remove_file(gathering.join(shard)).unwrap();
    fs::write(&partial, &weights(9)[..1000]).unwrap();
    bench.pull("some/model").await.unwrap();
    assert_eq!(fs::read(bench.place().join(shard)).unwrap(), weights(2));
    assert_eq!(bench.names("model"), MODEL);
}

#[tokio::test]
async fn a_wrong_hash_is_refused() {
    let bench = Bench::sharded();
    let shard = "model-00002-of-00002.safetensors";
    bench.server.state.lock().lie = Some(shard.to_owned());
    let error = bench.pull("some/model").await.unwrap_err();
    assert!(matches!(error, PullError::Checksum { .. }), "{error}");
    assert!(error.to_string().contains(shard), "{error}");
    assert!(!bench.place().exists());
    assert!(
        !bench
            .names("model.partial")
            .iter()
            .any(|name| name.starts_with(shard))
    );

    bench.server.asked();
    bench.pull("some/model").await.unwrap();
    let fetched = bench.server.fetched();
    assert_eq!(fetched, [shard, "model.safetensors.index.json"]);
}

#[tokio::test]
async fn sizes_and_hashes_may_come_with_the_file() {
    let bench = Bench::sharded();
    bench.server.state.lock().terse = true;
    bench.pull("some/model").await.unwrap();
    assert_eq!(bench.names("model"), MODEL);
    let remote = Remote {
        path: format!("/some/model/resolve/{COMMIT}/pytorch_model.bin"),
        bytes: None,
        sha256: None,
    };
    let endpoint = format!("http://{}", bench.server.address);
    let client = Client::new(&endpoint, None, Duration::ZERO).unwrap();
    let answer = client.get(&remote.path, 0).await.unwrap();
    assert_eq!(answer.bytes, Some(300_000));
    assert_eq!(answer.sha256, Some(crate::partial::sha256(&weights(2))));
}

#[tokio::test]
async fn a_newer_commit_replaces_the_whole() {
    let bench = Bench::sharded();
    bench.pull("some/model").await.unwrap();
    {
        let mut state = bench.server.state.lock();
        state.commit = "2".repeat(40);
        state.files.remove("chat_template.jinja");
        state
            .files
            .insert("config.json".to_owned(), b"{\"new\": 1}".to_vec());
    }
    bench.pull("some/model").await.unwrap();
    assert_eq!(bench.names("model").len(), MODEL.len() - 1);
    let config = fs::read(bench.place().join("config.json")).unwrap();
    assert_eq!(config, b"{\"new\": 1}");
    assert_eq!(bench.names("."), ["model"]);
}

#[tokio::test]
async fn of_many_gguf_files_one_has_to_be_named() {
    let (small, large) = (weights(1), weights(2));
    let files: [(&str, &[u8]); 3] = [
        ("README.md", b""),
        ("a-Q4_K_M.gguf", &small),
        ("q8/a-Q8_0.gguf", &large),
    ];
    let bench = Bench::new(&files);
    let error = bench.pull("some/model").await.unwrap_err().to_string();
    assert!(
        error.contains("\nsome/model:a-Q4_K_M.gguf\nsome/model:q8/a-Q8_0.gguf"),
        "{error}"
    );
    let path = bench.pull("some/model:q8/a-Q8_0.gguf").await.unwrap();
    assert_eq!(path, bench.place().join("a-Q8_0.gguf"));
    assert_eq!(fs::read(path).unwrap(), large);
    let error = bench
        .pull("some/model:b.gguf")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("has no file b.gguf"), "{error}");

    let bench = Bench::new(&files[..2]);
    let path = bench.pull("some/model").await.unwrap();
    assert_eq!(path, bench.place().join("a-Q4_K_M.gguf"));
}

#[tokio::test]
async fn patience_has_an_end() {
    let bench = Bench::sharded();
    bench.server.state.lock().busy = 2;
    bench.pull("some/model").await.unwrap();

    bench.server.state.lock().busy = 100;
    let error = bench.pull("some/model").await.unwrap_err().to_string();
    assert!(
        error.contains("503") && error.contains("come back later"),
        "{error}"
    );
    bench.server.state.lock().busy = 0;
    let error = bench.pull("some/other").await.unwrap_err().to_string();
    assert!(error.contains("there is no such repository"), "{error}");
}

#[test]
fn references_are_checked() {
    let parse = |name| Reference::parse(name).map(|parsed| parsed.map(|parsed| parsed.folder()));
    let fine = [
        ("a/b", "a--b"),
        ("a/b@v1.0", "a--b@v1.0"),
        ("a/b@refs/pr/1", "a--b@refs%2Fpr%2F1"),
        ("A-1/b_2.c:x/y.gguf", "A-1--b_2.c--x%2Fy.gguf"),
    ];
    for (name, folder) in fine {
        assert_eq!(parse(name), Some(Ok(folder.to_owned())));
        let again = Reference::parse(name).unwrap().unwrap().to_string();
        assert_eq!(again, name);
    }
    for name in ["plain", "/a/b", "./a", "../a", "a/b/c", "~/a"] {
        assert_eq!(parse(name), None, "{name}");
    }
    let bad = [
        "a/", "a/b--c", "a/..", "a/b c", "a/b@", "a/b@x y", "a/b:", "a/b:../c", "a/b:c//d", "a/-b",
    ];
    for name in bad {
        assert!(matches!(parse(name), Some(Err(_))), "{name}");
    }
}

#[test]
fn hashes_are_found_in_their_wrappings() {
    let digits = "AB".repeat(32);
    for text in [
        digits.clone(),
        format!("\"{digits}\""),
        format!("W/\"sha256:{digits}\""),
    ] {
        assert_eq!(sha256_in(&text), Some("ab".repeat(32)));
    }
    assert_eq!(
        sha256_in("\"0123456789abcdef0123456789abcdef01234567\""),
        None
    );
}
