//! Genuine Dynamo workers, from PyPI, behind our links and feeds.
//!
//! Ignored unless asked for, because they need `ai-dynamo`; `cargo xtask test --only dynamo`
//! installs it and runs them.

mod fleet;
mod over_nats;
mod version_0_9;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::{FinishReason, LinkError};
use dynamo::Registry;
use etcd::Etcd;
use telemetry::catalog;
use tempfile::TempDir;
use test_servers::etcd::Server;

use fleet::{Fleet, in_time, prompt, request};
use test_servers::dynamo::{Genuine, Planes, RegisterAt, Setting, write_model};

/// Tokens per block.
pub(crate) const BLOCK: usize = 16;

/// A program that `cargo xtask test --only dynamo` installs.
fn installed(environment: &str, program: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let target = target.expect("it is in the build directory");
    let program = target.join(environment).join("bin").join(program);
    assert!(program.is_file(), "run `cargo xtask test --only dynamo`");
    program
}

/// Folders for a model and a registry.
struct Ground {
    model: TempDir,
    registry: TempDir,
}

impl Ground {
    fn new() -> Self {
        let folder = || tempfile::tempdir().expect("a folder");
        let ground = Self {
            model: folder(),
            registry: folder(),
        };
        write_model(ground.model.path()).expect("the folder can be written");
        ground
    }

    fn start(&self, options: &[&str]) -> Genuine {
        self.start_in(self.folder(), Planes::Direct, options)
    }

    fn folder(&self) -> RegisterAt {
        RegisterAt::Folder(self.registry.path().to_owned())
    }

    fn start_in(&self, place: RegisterAt, planes: Planes, options: &[&str]) -> Genuine {
        let setting = Setting {
            python: installed("venv-dynamo", "python"),
            model: self.model.path().to_owned(),
            name: "words".to_owned(),
            place,
            planes,
            block_size: BLOCK,
        };
        setting.mocker(options).expect("python runs")
    }

    async fn fleet(&self) -> Fleet {
        Fleet::watch_folder(self.registry.path().to_owned()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn workers_serve_and_report_the_cache_that_their_events_predict() {
    let ground = Ground::new();
    let _mocker = ground.start(&["--num-workers=2", "--speedup-ratio=20"]);
    let mut fleet = ground.fleet().await;
    let ids = fleet.until(2).await;
    let folder = fleet.dynamo.models.borrow().values().next().cloned();
    assert_eq!(folder.unwrap().folder.as_deref(), Some(ground.model.path()));

    let worker = fleet.worker(ids[0]);
    assert_eq!(worker.card.blocks.size as usize, BLOCK);
    assert!(worker.card.simulated && worker.card.slots > 0 && worker.card.total_blocks > 0);
    let first = prompt(1, 70);
    let answer = worker.serve(request(&first, 40)).await.unwrap();
    assert_eq!(answer.tokens.len(), 40);
    assert_eq!(
        (answer.finish, answer.cached_tokens),
        (FinishReason::Length, 0)
    );

    // The same prompt again, then one that goes on differently after four blocks, twice.
    worker.until_predicted(&first, 64).await;
    let again = worker.serve(request(&first, 3)).await.unwrap();
    assert_eq!(again.cached_tokens, 64);
    let second = [&first[..64], &prompt(2, 40)].concat();
    assert_eq!(worker.predicted(&second), 64);
    let branch = worker.serve(request(&second, 3)).await.unwrap();
    assert_eq!(branch.cached_tokens, 64);
    worker.until_predicted(&second, 96).await;
    let again = worker.serve(request(&second, 3)).await.unwrap();
    assert_eq!(again.cached_tokens, 96);

    // What one worker holds says nothing about the other.
    let other = fleet.worker(ids[1]);
    assert_eq!(other.predicted(&first), 0);
    let elsewhere = other.serve(request(&first, 3)).await.unwrap();
    assert_eq!(elsewhere.cached_tokens, 0);
    for metric in [
        &catalog::DYNAMO_ORPHANED_BLOCKS_TOTAL,
        &catalog::DYNAMO_UNREADABLE_EVENTS_TOTAL,
        &catalog::DYNAMO_REFUSED_STREAMS_TOTAL,
        &catalog::DYNAMO_UNREADABLE_REGISTRATIONS_TOTAL,
    ] {
        assert_eq!(
            fleet.metrics.counter(metric, &[]).get(),
            0,
            "{}",
            metric.name
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn an_answer_begun_elsewhere_goes_on_and_too_long_a_prompt_is_refused() {
    let ground = Ground::new();
    let options = ["--speedup-ratio=20", "--num-gpu-blocks-override=64"];
    let _mocker = ground.start(&options);
    let mut fleet = ground.fleet().await;
    let id = fleet.until(1).await[0];
    let worker = fleet.worker(id);
    let mut continued = request(&prompt(1, 40), 20);
    continued.answered = Arc::from(prompt(2, 15));
    let rest = worker.serve(continued).await.unwrap();
    assert_eq!((rest.tokens.len(), rest.finish), (5, FinishReason::Length));
    let error = worker
        .serve(request(&prompt(3, 2000), 5))
        .await
        .unwrap_err();
    assert!(matches!(error, LinkError::TooLarge { .. }), "{error}");
    // It serves on.
    assert!(worker.serve(request(&prompt(4, 40), 5)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn a_dropped_stream_frees_its_worker() {
    let ground = Ground::new();
    let _mocker = ground.start(&["--max-num-seqs=1"]);
    let mut fleet = ground.fleet().await;
    let id = fleet.until(1).await[0];
    let worker = fleet.worker(id);
    // Hours of answer, on a worker that serves one request at a time.
    let endless = request(&prompt(1, 40), 200_000);
    let mut stream = in_time("a stream", worker.link.generate(endless))
        .await
        .unwrap();
    for _ in 0..3 {
        in_time("a token", stream.next()).await.unwrap().unwrap();
    }
    drop(stream);
    let next = worker.serve(request(&prompt(2, 40), 5)).await.unwrap();
    assert_eq!(next.tokens.len(), 5);
}

/// Copies a registry, so that a test decides what is seen of it.
fn copy_registry(from: &Path, to: &Path, with_channels: bool) {
    for bucket in ["instances", "mdc", "event_channels"] {
        let target = to.join("v1").join(bucket);
        let _ = fs::remove_dir_all(&target);
        fs::create_dir_all(&target).expect("a folder");
        if bucket == "event_channels" && !with_channels {
            continue;
        }
        for entry in fs::read_dir(from.join("v1").join(bucket)).expect("workers are there") {
            let entry = entry.expect("a file");
            let value = fs::read_to_string(entry.path()).expect("text");
            // The worker takes both codecs; the other tests use the one it prefers.
            let value = value.replace("msgpack", "json");
            fs::write(target.join(entry.file_name()), value).expect("a copy");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn lost_events_are_made_up_for_by_a_tree_dump() {
    let ground = Ground::new();
    let _mocker = ground.start(&["--speedup-ratio=20"]);
    let mut original = ground.fleet().await;
    original.until(1).await;
    let copy = tempfile::tempdir().unwrap();
    copy_registry(ground.registry.path(), copy.path(), true);
    let mut fleet = Fleet::watch_folder(copy.path().to_owned()).await;
    let id = fleet.until(1).await[0];
    let metrics = fleet.metrics.clone();
    let channels = |wanted: f64| {
        let channels = metrics.gauge(&catalog::DYNAMO_EVENT_CHANNELS, &[]);
        in_time("channels", async move {
            while channels.get() != wanted {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
    };
    channels(1.0).await;
    let worker = fleet.worker(id);
    let (heard, lost) = (prompt(1, 70), prompt(2, 70));
    worker.serve(request(&heard, 3)).await.unwrap();
    worker.until_predicted(&heard, 64).await;

    copy_registry(ground.registry.path(), copy.path(), false);
    channels(0.0).await;
    worker.serve(request(&lost, 3)).await.unwrap();
    copy_registry(ground.registry.path(), copy.path(), true);
    channels(1.0).await;
    assert_eq!(worker.predicted(&lost), 0);
    // The next event that is heard shows the gap, whenever the listener is back.
    let mut snapshots = 0;
    for seed in 3.. {
        worker.serve(request(&prompt(seed, 70), 3)).await.unwrap();
        let waiting = worker.until_predicted(&lost, 64);
        let patience = std::time::Duration::from_secs(2);
        if let Ok(taken) = tokio::time::timeout(patience, waiting).await {
            snapshots += taken;
            break;
        }
    }
    assert!(snapshots > 0);
    assert_eq!(worker.predicted(&heard), 64);
    // Events go on to be understood after the repair, children of lost blocks included.
    let child = [&lost[..64], &prompt(9, 40)].concat();
    let reused = worker.serve(request(&child, 3)).await.unwrap();
    assert_eq!(reused.cached_tokens, 64);
    worker.until_predicted(&child, 96).await;
    let orphaned = metrics.counter(&catalog::DYNAMO_ORPHANED_BLOCKS_TOTAL, &[]);
    assert_eq!(orphaned.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn a_killed_worker_leaves_a_folder_and_breaks_its_streams_at_once() {
    let ground = Ground::new();
    let doomed = ground.start(&[]);
    let mut fleet = ground.fleet().await;
    let first = fleet.until(1).await[0];
    let _survivor = ground.start(&["--speedup-ratio=20"]);
    fleet.until(2).await;
    let worker = fleet.worker(first);
    let endless = request(&prompt(1, 40), 200_000);
    let mut stream = in_time("a stream", worker.link.generate(endless))
        .await
        .unwrap();
    in_time("a token", stream.next()).await.unwrap().unwrap();
    let link = Arc::clone(&worker.link);
    drop(doomed);
    let error = in_time("the end", async {
        loop {
            match stream.next().await.expect("an error ends it") {
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    });
    let error = error.await;
    assert!(matches!(error, LinkError::Interrupted { .. }), "{error}");
    let left = fleet.until(1).await;
    assert_ne!(left, [first]);
    let error = link.generate(request(&prompt(1, 40), 5)).await.unwrap_err();
    assert!(matches!(error, LinkError::Unreachable { .. }), "{error}");
    let survivor = fleet.worker(left[0]);
    assert!(survivor.serve(request(&prompt(1, 40), 5)).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs ai-dynamo"]
async fn workers_in_etcd_are_found_serve_and_leave_with_their_lease() {
    let ground = Ground::new();
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path()).expect("tests need etcd (Debian: etcd-server)");
    let etcd = Etcd::connect(&[server.address()], &etcd::Tls::default()).unwrap();
    let mut fleet = Fleet::watch(Registry::Etcd(etcd)).await;
    let place = RegisterAt::Etcd(server.address());
    let mocker = ground.start_in(place, Planes::Direct, &["--speedup-ratio=20"]);
    let id = fleet.until(1).await[0];
    let worker = fleet.worker(id);
    let prompt = prompt(1, 70);
    let answer = worker.serve(request(&prompt, 20)).await.unwrap();
    assert_eq!(answer.tokens.len(), 20);
    worker.until_predicted(&prompt, 64).await;
    let again = worker.serve(request(&prompt, 3)).await.unwrap();
    assert_eq!(again.cached_tokens, 64);
    drop(mocker);
    fleet.until(0).await;
}
