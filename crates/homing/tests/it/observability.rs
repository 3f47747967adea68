//! `homing demo --observability` and `homing dashboards`, as a user runs them: with the real
//! Prometheus, which has to be installed, and with a script in the place of Grafana.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use loadgen::baseline::{Baseline, BaselineCell, BaselineFigures, BaselineLevel, SCHEMA};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_homing");

/// A demo that has greeted, and what it said.
struct Demo {
    process: Child,
    greeting: String,
}

impl Demo {
    fn start(path: &str, options: &[&str], folder: &Path) -> Self {
        let mut process = Command::new(PROGRAM)
            .args(["demo", "--http-port", "0", "--console-port", "0"])
            .args(["--no-load", "--workers", "1", "--observability"])
            .args(options)
            .env("PATH", path)
            .env("TMPDIR", folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut greeting = String::new();
        while !greeting.contains("Ctrl-C stops it.") {
            let read = lines.read_line(&mut greeting).unwrap();
            assert!(read > 0, "the demo ended: {greeting}");
        }
        // Its last words go nowhere, and nobody may make it wait.
        std::thread::spawn(move || lines.read_to_end(&mut Vec::new()));
        Self { process, greeting }
    }

    /// What stands behind a name in the greeting.
    fn line(&self, name: &str) -> &str {
        let mut lines = self.greeting.lines().map(str::trim);
        let line = lines.find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.greeting))
            .trim()
    }

    /// Host and port behind a name.
    fn host(&self, name: &str) -> &str {
        let address = self.line(name).strip_prefix("http://");
        let address = address.unwrap_or_else(|| panic!("{}", self.greeting));
        address.split('/').next().unwrap()
    }

    /// Asks it to stop, and expects that it does so well.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn get(host: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(host).ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

fn until<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(found) = attempt() {
            return found;
        }
        sleep(Duration::from_millis(100));
    }
    panic!("never: {what}");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test that runs what is installed"
)]
fn usual_path() -> String {
    let path = std::env::var("PATH").unwrap();
    assert!(
        prometheus_on(&path).is_some(),
        "Prometheus has to be installed for this test (Debian: prometheus)"
    );
    path
}

fn prometheus_on(path: &str) -> Option<PathBuf> {
    let mut places = std::env::split_paths(path).map(|folder| folder.join("prometheus"));
    places.find(|place| place.is_file())
}

fn write_baseline(path: &Path) {
    let p95 = |ms| BaselineFigures {
        p95: Some(ms),
        ..BaselineFigures::default()
    };
    let cell = |mode: &str, ttft_ms| BaselineCell {
        mode: mode.to_owned(),
        requests: 1,
        errors: 0,
        ttft_ms: p95(ttft_ms),
        tpot_ms: p95(30.0),
        itl_ms: p95(40.0),
        e2e_ms: BaselineFigures::default(),
        rps: 1.0,
        tops: 1.0,
        kv_hit_pct: None,
        turns: Vec::new(),
        verdicts: std::collections::BTreeMap::new(),
    };
    let level = |concurrency, ttft_ms| BaselineLevel {
        concurrency,
        cells: vec![cell("round-robin", ttft_ms), cell("kv", ttft_ms / 2.0)],
    };
    let baseline = Baseline {
        schema: SCHEMA,
        run_id: "abc".to_owned(),
        created_ms: 1_750_000_000_000,
        source: "a test".to_owned(),
        simulated: true,
        profile: "p".to_owned(),
        workload: "w".to_owned(),
        workers: 3,
        seed: 42,
        repeats: 1,
        warmup_s: 0.0,
        window_s: 1.0,
        levels: vec![level(60, 655.0), level(180, 2000.0)],
    };
    fs::write(path, serde_json::to_string(&baseline).unwrap()).unwrap();
}

/// A constant of a dashboard.
fn constant(dashboard: &Path, name: &str) -> String {
    let json: Value = serde_json::from_str(&fs::read_to_string(dashboard).unwrap()).unwrap();
    let variables = json["templating"]["list"].as_array().unwrap();
    let variable = variables.iter().find(|variable| variable["name"] == name);
    variable.unwrap()["query"].as_str().unwrap().to_owned()
}

#[test]
fn prometheus_and_grafana_watch_the_demo_and_end_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let [programs, files, said, baseline] =
        ["bin", "files", "said", "baseline.json"].map(|name| folder.path().join(name));
    fs::create_dir(&programs).unwrap();
    // Says who it is and what it was told, and runs until it is asked to end.
    let script = format!(
        "#!/bin/sh\n(echo $$; env) > {0}.part && mv {0}.part {0}\nexec sleep 600\n",
        said.display()
    );
    let grafana = programs.join("grafana-server");
    fs::write(&grafana, script).unwrap();
    fs::set_permissions(&grafana, fs::Permissions::from_mode(0o755)).unwrap();
    write_baseline(&baseline);
    let path = format!("{}:{}", programs.display(), usual_path());
    let demo = Demo::start(
        &path,
        &[
            "--prometheus-port=0",
            "--grafana-port=0",
            &format!("--observability-dir={}", files.display()),
            &format!("--baseline={}", baseline.display()),
        ],
        folder.path(),
    );
    let (api, prometheus) = (demo.host("api"), demo.host("prometheus").to_owned());
    let up = until("the demo is up", || {
        let answer = get(&prometheus, "/api/v1/query?query=up==1")?;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["data"]["result"].get(0).cloned()
    });
    assert_eq!(up["metric"]["instance"], api);
    assert_eq!(up["metric"]["job"], "homing");
    assert_eq!(up["metric"]["namespace"], "dynamo-workload");
    let rules = get(&prometheus, "/api/v1/rules").unwrap();
    assert!(rules.contains("HomingTargetDown") && rules.contains("homing:ttft_seconds:p95_5m"));

    let said = fs::read_to_string(said).unwrap();
    let (id, told) = said.split_once('\n').unwrap();
    let home = files
        .canonicalize()
        .unwrap()
        .join("grafana/dashboards/gtc-demo.json");
    let port = demo.host("grafana").rsplit(':').next().unwrap();
    for setting in [
        format!("GF_SERVER_HTTP_PORT={port}"),
        "GF_AUTH_ANONYMOUS_ORG_ROLE=Viewer".to_owned(),
        format!(
            "GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH={}",
            home.display()
        ),
    ] {
        assert!(
            told.lines().any(|line| line == setting),
            "{setting} in {told}"
        );
    }
    assert_eq!(
        constant(&home, "baseline_ttft_p95"),
        "0.655 * (scalar(max(loadgen_target_conversations)) == bool 60) \
         + 2 * (scalar(max(loadgen_target_conversations)) == bool 180)"
    );
    assert!(constant(&home, "single_ttft_p95").starts_with("0.3275 * "));
    assert_eq!(constant(&home, "double_ttft_p95"), "NaN");
    let datasource = files.join("grafana/provisioning/datasources/prometheus.yml");
    let datasource = fs::read_to_string(datasource).unwrap();
    assert!(datasource.contains(&format!("\"http://{prometheus}\"")));

    demo.stop();
    assert!(TcpStream::connect(&prometheus).is_err(), "it is gone");
    let id = Pid::from_raw(id.parse().unwrap()).unwrap();
    assert!(test_kill_process(id).is_err(), "this one too");
    assert!(home.is_file(), "a folder that was named stays");
}

#[test]
fn without_prometheus_the_demo_says_what_to_install_and_serves() {
    let folder = tempfile::tempdir().unwrap();
    let demo = Demo::start("/nowhere", &["--prometheus-port=0"], folder.path());
    let note = demo.line("prometheus");
    assert!(note.contains("apt-get install prometheus"), "{note}");
    assert!(demo.line("grafana").contains("without Prometheus"));
    assert!(get(demo.host("api"), "/v1/models").is_some());
    demo.stop();
    let left = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 0, "the temporary folder is gone");
}

#[test]
fn without_grafana_the_demo_points_to_the_console() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("bin");
    fs::create_dir(&programs).unwrap();
    let prometheus = prometheus_on(&usual_path()).unwrap();
    symlink(prometheus, programs.join("prometheus")).unwrap();
    let options = ["--prometheus-port=0", "--grafana-port=0"];
    let demo = Demo::start(programs.to_str().unwrap(), &options, folder.path());
    let host = demo.host("prometheus").to_owned();
    assert!(get(&host, "/-/ready").is_some());
    // A machine on which its package is installed has it without a path.
    let installed = Path::new("/usr/sbin/grafana-server").exists();
    let note = demo.line("grafana");
    assert!(installed || note.contains("\"Grafana view\""), "{note}");
    demo.stop();
    assert!(TcpStream::connect(&host).is_err(), "it is gone");
}

#[test]
fn what_keeps_prometheus_from_running_is_said_and_the_demo_serves() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("--prometheus-port={}", taken.local_addr().unwrap().port());
    let demo = Demo::start(&usual_path(), &[&port], folder.path());
    let note = demo.line("prometheus");
    assert!(note.contains("--prometheus-port; 0 picks"), "{note}");
    assert!(get(demo.host("api"), "/v1/models").is_some());
    demo.stop();

    // Data that is no data: it ends at once, and its own words say why.
    let files = folder.path().join("files");
    fs::create_dir(&files).unwrap();
    fs::write(files.join("prometheus-data"), "").unwrap();
    let files = format!("--observability-dir={}", files.display());
    let demo = Demo::start(
        &usual_path(),
        &["--prometheus-port=0", &files],
        folder.path(),
    );
    let note = demo.line("prometheus");
    assert!(note.contains("its output"), "{note}");
    assert!(
        demo.greeting.contains("prometheus-data"),
        "{}",
        demo.greeting
    );
    assert!(get(demo.host("api"), "/v1/models").is_some());
    demo.stop();
}

#[test]
fn a_demo_that_cannot_start_leaves_no_server_behind() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let free = free.unwrap();
    let output = Command::new(PROGRAM)
        .args([
            "demo",
            "--http-port=0",
            "--console-port=0",
            "--profile=none",
        ])
        .args(["--observability", "--grafana-port=0"])
        .arg(format!("--prometheus-port={}", free.port()))
        .env("PATH", usual_path())
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("none"),
        "{error}"
    );
    assert!(TcpStream::connect(free).is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn dashboards_are_written_with_lines_from_a_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let [file, filled] = ["baseline.json", "filled"].map(|name| folder.path().join(name));
    write_baseline(&file);
    let run = |words: &[&str]| {
        let output = Command::new(PROGRAM)
            .arg("dashboards")
            .args(words)
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(said).unwrap())
    };
    let (ok, said) = run(&["--baseline", "baseline.json"]);
    assert!(
        ok && said.contains("baseline_ttft_p95  0.655 s at 60, 2 s at 180"),
        "{said}"
    );
    let at_180 = ["--baseline", "baseline.json", "--level", "180"];
    let (ok, said) = run(&[&at_180[..], &["--output", "filled"]].concat());
    assert!(ok && said.contains("filled/gtc-demo.json"), "{said}");
    assert!(
        said.contains("at 180 conversations, from run abc"),
        "{said}"
    );
    assert_eq!(
        constant(&filled.join("gtc-demo.json"), "baseline_ttft_p95"),
        "2"
    );
    assert!(filled.join("homing-router.json").is_file());

    let (ok, said) = run(&["--baseline", "baseline.json", "--level", "99"]);
    assert!(
        !ok && said.contains("baseline.json: no level 99; available: 60, 180"),
        "{said}"
    );
    fs::write(&file, r#"{ "schema": 2 }"#).unwrap();
    let (ok, said) = run(&["--baseline", "baseline.json"]);
    assert!(
        !ok && said.contains("baseline.json: schema 2 is not supported"),
        "{said}"
    );

    let (ok, said) = run(&[]);
    assert!(ok && said.contains("grafana/gtc-demo.json"), "{said}");
    let shipped = include_str!("../../../../dashboards/grafana/gtc-demo.json");
    let written = folder.path().join("grafana/gtc-demo.json");
    assert_eq!(fs::read_to_string(written).unwrap(), shipped);
}
