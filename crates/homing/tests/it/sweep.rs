//! Sweeps, live against the whole pipeline and in virtual time, and the command as it is typed.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use contract::Clock;
use engine::sim::Profile;
use http_client::{HttpClient, HttpOptions, Pipe};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use lab::NEVER;
use loadgen::Starter;
use loadgen::client::{Client, Patience, Target};
use preprocess::corpus;
use stats::Summary;
use sweep::live::deployment::Deployment;
use sweep::live::{LiveError, LiveRun, News, Stage};
use sweep::{Folder, PartialPlan, VirtualRun, publish};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::loadgen::{Demo, PROGRAM};
use testkit::{Cluster, Setup};

const PLAN: &str = r#"
levels = [24]
modes = "round-robin,kv"
warmup = "30s"
window = "300s"
"#;

/// Connections to a cluster's own service, without a socket.
fn transport(cluster: &Cluster) -> HttpClient {
    let service = cluster.frontend.service();
    let tasks = TaskTracker::new();
    let connector = tower::service_fn(move |_: http::Uri| {
        let (near, far) = tokio::io::duplex(1 << 20);
        let service = TowerToHyperService::new(service.clone());
        tasks.spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            // A client that hangs up is an error of the connection, not of the test.
            let _ = builder.serve_connection(TokioIo::new(far), service).await;
        });
        std::future::ready(Ok::<_, std::io::Error>(Pipe::new(near)))
    });
    HttpClient::over(connector, HttpOptions::default())
}

async fn cluster() -> Cluster {
    let profile = Profile::named(engine::sim::PUBLISHED_PROFILE).unwrap();
    let setup = Setup {
        mode: "kv",
        profile,
        ..Setup::default()
    };
    Cluster::start(setup).await
}

async fn live<'a>(cluster: &Cluster, folder: &'a Folder, stop: CancellationToken) -> LiveRun<'a> {
    let transport = transport(cluster);
    let clock: Clock = cluster.clock;
    let patience = Patience::default();
    let target = Target::new("http://cluster", &cluster.model).unwrap();
    let articles = corpus::articles().iter();
    LiveRun {
        folder,
        deployment: Deployment::homing(transport.clone(), "http://cluster", None)
            .await
            .unwrap(),
        client: Client::new(transport, target, patience, clock),
        beside: Vec::new(),
        patience,
        starters: articles
            .map(|article| Starter::new(article.title, article.text))
            .collect(),
        model: cluster.model.clone(),
        simulated: true,
        clock,
        unix_ms: || 1_700_000_000_000,
        stop,
        drain: true,
        deadline: None,
        watcher: Box::new(|_| {}),
    }
}

fn folder(place: &Path, more: &str, is_virtual: bool) -> Folder {
    let partial = PartialPlan::parse(&format!("{PLAN}{more}")).unwrap();
    Folder::open(place, partial.resolve(is_virtual).unwrap()).unwrap()
}

fn virtual_summary(place: &Path) -> Summary {
    let folder = folder(place, "repeats = 1", true);
    let run = VirtualRun {
        folder: &folder,
        threads: Some(2),
        search: false,
        stop: &NEVER,
    };
    assert_eq!(run.run().unwrap(), 2);
    publish(&folder, None, 1).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_live_sweep_agrees_with_the_virtual_one() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster().await;
    let folder = folder(here.path(), "target = \"http://cluster\"", false);
    let mut run = live(&cluster, &folder, CancellationToken::new()).await;
    assert_eq!(Box::pin(run.run()).await.unwrap(), 2);
    assert_eq!(Box::pin(run.run()).await.unwrap(), 0, "all runs are made");
    drop(run);
    let live = publish(&folder, None, 1).unwrap();
    let simulated = virtual_summary(there.path());
    assert_eq!((live.done, live.planned), (2, 2));
    assert!(live.run_id.starts_with("live-"), "{}", live.run_id);
    for (live, simulated) in live.cells.iter().zip(&simulated.cells) {
        let mode = &live.mode;
        assert_eq!((mode, live.errors), (&simulated.mode, 0));
        assert!(live.guards.is_empty(), "{mode}: {:?}", live.guards);
        let near = |name: &str| {
            let (one, other) = (live.value(name).unwrap(), simulated.value(name).unwrap());
            assert!(
                (one / other - 1.0).abs() < 0.1,
                "{mode} {name}: {one} {other}"
            );
        };
        // Of round robin's requests half are at home by chance, so its median lies between two
        // humps and tells little; its 90th percentile is in the second one.
        near(match mode == "kv" {
            true => "ttft_ms_p50",
            false => "ttft_ms_p90",
        });
        near("tops");
        near("tpot_ms_p50");
        near("e2e_s_p50");
        let hits = [live, simulated].map(|cell| cell.kv_hit_pct.unwrap());
        assert!((hits[0] - hits[1]).abs() < 4.0, "{mode}: {hits:?}");
        // Counted by the client and by the server, from the same answers.
        let (told, counted) = (live.run_hit_pct.unwrap(), live.server_hit_pct.unwrap());
        assert!((told - counted).abs() < 0.5, "{mode}: {told} {counted}");
        assert_eq!((live.traffic.workers.len(), live.slots), (3, Some(64)));
        assert!(live.measured_ms.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_stopped_leaves_whole_runs_and_goes_on() {
    let place = tempfile::tempdir().unwrap();
    let cluster = cluster().await;
    let more = "target = \"http://cluster\"\nrepeats = 2";
    let folder = folder(place.path(), more, false);
    let stop = CancellationToken::new();
    let mut run = live(&cluster, &folder, stop.clone()).await;
    let (mut ended, mut begun) = (0, 0);
    let stopper = stop.clone();
    run.watcher = Box::new(move |news| match news {
        News::Begins { .. } => begun += 1,
        News::Ended(_) => ended += 1,
        // In the middle of the second run.
        News::Stage(Stage::Finishing) if (ended, begun) == (1, 2) => stopper.cancel(),
        News::Stage(_) | News::Second(_) | News::OutOfTime { .. } => {}
    });
    assert_eq!(Box::pin(run.run()).await.unwrap(), 1);
    drop(run);
    assert_eq!(folder.left().len(), 3);
    let partial = publish(&folder, None, 1).unwrap();
    assert_eq!((partial.done, partial.planned), (1, 4));
    let mut run = live(&cluster, &folder, CancellationToken::new()).await;
    assert_eq!(Box::pin(run.run()).await.unwrap(), 3);
    drop(run);
    assert_eq!(publish(&folder, None, 1).unwrap().done, 4);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_would_end_too_late_is_not_begun() {
    let place = tempfile::tempdir().unwrap();
    let cluster = cluster().await;
    let left_over = std::cell::Cell::new(None);
    let more = "target = \"http://cluster\"\nrepeats = 3";
    let folder = folder(place.path(), more, false);
    let mut run = live(&cluster, &folder, CancellationToken::new()).await;
    let begun = cluster.clock.now();
    run.drain = false;
    let enough_for_one = folder.plan().expected_run() + Duration::from_secs(1);
    run.deadline = Some(begun + enough_for_one);
    run.watcher = Box::new(|news| {
        if let News::OutOfTime { left, .. } = news {
            left_over.set(Some(left));
        }
    });
    assert_eq!(Box::pin(run.run()).await.unwrap(), 1);
    drop(run);
    assert_eq!((folder.left().len(), left_over.get()), (5, Some(5)));
    let summary = publish(&folder, None, 1).unwrap();
    assert_eq!((summary.done, summary.cells[0].errors), (1, 0));
    // Counted by the server, and cancelled.
    assert_eq!(summary.cells[0].server_hit_pct, None);
}

#[tokio::test(start_paused = true)]
async fn a_server_beside_is_measured_between_the_modes() {
    let place = tempfile::tempdir().unwrap();
    let cluster = cluster().await;
    let more = "target = \"http://cluster\"\nbeside = \"other=http://other\"";
    let folder = folder(place.path(), more, false);
    let mut run = live(&cluster, &folder, CancellationToken::new()).await;
    // The same engines, whatever the address.
    run.beside = vec![("other".to_owned(), run.client.clone())];
    assert_eq!(Box::pin(run.run()).await.unwrap(), 3);
    drop(run);
    let summary = publish(&folder, None, 1).unwrap();
    let other = summary.cells.iter().find(|cell| cell.mode == "other");
    let other = other.unwrap();
    assert!(other.requests > 0 && other.errors == 0);
    assert_eq!(other.server_hit_pct, None, "its counters are not known");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_ends_the_sweep_with_its_name() {
    let place = tempfile::tempdir().unwrap();
    let cluster = cluster().await;
    let folder = folder(place.path(), "target = \"http://cluster\"", false);
    let mut run = live(&cluster, &folder, CancellationToken::new()).await;
    // Nobody answers there.
    let gone = tower::service_fn(|_: http::Uri| {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        std::future::ready(Err::<Pipe<tokio::io::DuplexStream>, _>(refused))
    });
    let gone = HttpClient::over(gone, HttpOptions::default());
    let error = Deployment::homing(gone, "http://gone", None)
        .await
        .unwrap_err();
    assert!(
        error.to_string().starts_with("target: http://gone: "),
        "{error}"
    );
    // A mode that it does not know is its answer, not our guess.
    run.deployment.switch("magic").await.unwrap_err();
    let error: LiveError = run.deployment.switch("magic").await.unwrap_err().into();
    assert!(error.to_string().contains("magic"), "{error}");
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn homing(arguments: &str, output: &Path) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("sweep").args(arguments.split_whitespace());
    command.arg("--output").arg(output).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn bad_plans_are_refused_before_anything_is_written() {
    for (arguments, part) in [
        (
            "--virtual --levels sixty",
            "levels: `sixty` is not a number",
        ),
        ("--virtual --modes magic", "modes: "),
        ("--virtual --window 0s", "window: a window of 0"),
        ("--virtual --preset none", "preset: no preset `none`"),
        ("--virtual --workload none", "workload: no workload `none`"),
        (
            "--virtual --plan missing.toml",
            "plan: cannot read missing.toml",
        ),
        ("--virtual --compare nothing", "compare: "),
        ("--preset quick", "target: set the server"),
        ("--target http://127.0.0.1:9", "target: "),
        ("--target nonsense", "target: "),
        ("--story --target http://127.0.0.1:9", "set-mode-command: "),
    ] {
        let place = tempfile::tempdir().unwrap();
        let output = place.path().join("out");
        let done = homing(arguments, &output);
        let told = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments}: {told}");
        assert!(told.contains(part), "{arguments}: {told}");
        assert!(!output.exists(), "{arguments} wrote something");
    }
}

#[test]
fn a_sweep_is_typed_continued_and_reported_again() {
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("out");
    let arguments = "--virtual --levels 6,9 --modes round-robin,kv --warmup 5s --window 20s";
    let first = homing(arguments, &output);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let table = text(&first.stdout);
    assert!(
        table.starts_with("SIMULATED: specification on 3 workers"),
        "{table}"
    );
    assert!(
        table.contains("Highest level with ttft_p95 at most 600 ms"),
        "{table}"
    );
    let report = std::fs::read_to_string(output.join("report.md")).unwrap();
    std::fs::remove_file(output.join("report.md")).unwrap();
    let again = homing(arguments, &output);
    let told = text(&again.stderr);
    assert!(
        again.status.success() && told.contains("0 are left"),
        "{told}"
    );
    assert_eq!(
        std::fs::read_to_string(output.join("report.md")).unwrap(),
        report
    );
    let other = homing("--virtual --levels 6", &output);
    let told = text(&other.stderr);
    assert_eq!(other.status.code(), Some(2));
    assert!(told.contains("another plan (its modes differs)"), "{told}");
    let mut command = Command::new(PROGRAM);
    let reported = command
        .args(["sweep", "report"])
        .arg(&output)
        .output()
        .unwrap();
    assert_eq!(text(&reported.stdout), table);
}

#[test]
fn commands_drive_a_server_that_is_no_homing_to_them() {
    let demo = Demo::start("--no-load --profile zero-delay --router-mode round-robin");
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("out");
    let log = place.path().join("modes");
    let plan = place.path().join("plan.toml");
    let text_of_plan = format!(
        "levels = [2]\nmodes = \"off,on\"\nwarmup = \"1s\"\nwindow = \"2s\"\norder = \"grouped\"\n\
         target = \"{url}\"\nset-mode-command = \"echo set {{mode}} $HOMING_MODE >> {log}\"\n\
         get-mode-command = \"echo on\"\nreset-command = \"echo reset >> {log}\"\n\
         ready-url = \"{root}/health\"\n",
        url = demo.url,
        root = demo.url.trim_end_matches("/v1"),
        log = log.display(),
    );
    std::fs::write(&plan, text_of_plan).unwrap();
    let done = homing(&format!("--plan {}", plan.display()), &output);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let modes = std::fs::read_to_string(&log).unwrap();
    assert_eq!(modes, "set off off\nreset\nset on on\nreset\n");
    let table = text(&done.stdout);
    // What the command said is believed for one and doubted for the other; and answers of our
    // own server tell how they were really routed.
    assert!(
        table.contains("doubt: off at 2: the deployment did not say"),
        "{table}"
    );
    assert!(
        !table.contains("doubt: on at 2: the deployment did not say"),
        "{table}"
    );
    assert!(
        table.contains("doubt: on at 2: ") && table.contains("another mode"),
        "{table}"
    );
}
