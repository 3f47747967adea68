//! What a request costs a frontend with a real model's tokenizer: ours over workers of ours and of
//! Dynamo's, and Dynamo's own over the same workers of its own.
//!
//! All three run side by side and are asked by turns, so that a machine that is now fast and now slow
//! is so to all. Only the frontend's own process counts. Texts are drawn from this repository's
//! documentation, word by word, and none is sent twice.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use contract::random::Random;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::client::{Client, post};
use super::dynamo::genuine::{Planes, RegisterAt, Setting};
use super::dynamo::{self, Side, WORKERS};
use super::figures::{best, median, say};
use super::server::{Server, cpu_of};
use crate::ci::genuine_dynamo;
use crate::repository;

const NAME: &str = "bench";
const BLOCK: usize = 32;
const CLIENTS: usize = 16;
/// Requests that are not counted: connections, caches of pieces, Python's imports.
const FIRST_REQUESTS: usize = 64;

const LOADS: [Load; 3] = [Load::new(3300, 8), Load::new(150, 8), Load::new(150, 400)];

/// Words of the prompt and tokens of the answer.
#[derive(Clone, Copy, Debug)]
struct Load {
    words: usize,
    tokens: u32,
}

impl Load {
    const fn new(words: usize, tokens: u32) -> Self {
        Self { words, tokens }
    }
}

/// How often each frontend is asked, and how long.
#[derive(Clone, Copy, Debug)]
struct Turns {
    rounds: usize,
    length: Duration,
}

/// One of the frontends: its address and its process.
struct Measured {
    name: &'static str,
    address: String,
    process: u32,
}

pub(super) async fn run(model: &Path, rounds: usize, turn: Duration) -> anyhow::Result<()> {
    ensure!(rounds > 0, "--rounds must be at least 1");
    let folder = repository::target_directory()?.join("real-tokenizer");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let setting = Setting {
        python: genuine_dynamo()?,
        model: folder.join("model"),
        name: NAME.to_owned(),
        place: RegisterAt::Folder(folder.join("registry")),
        planes: Planes::Direct,
        block_size: BLOCK,
    };
    fs::create_dir_all(folder.join("registry"))?;
    copy_model(model, &setting.model)?;

    let path = setting
        .model
        .to_str()
        .context("--model-path is not UTF-8")?;
    let options = ["--profile", "zero-delay", "--model-path", path];
    let workers = [&options[..], &["--model-name", NAME]].concat();
    let ours = Server::cluster(WORKERS, &workers, &["--model-path", path])?;
    let mocker = [
        "--speedup-ratio=1000000".to_owned(),
        format!("--num-workers={WORKERS}"),
    ];
    let _mocker = setting.mocker(&mocker.each_ref().map(String::as_str))?;
    let over_dynamo = started(Side::Homing, &setting)?;
    let dynamo = started(Side::Dynamo, &setting)?;
    let frontends = [
        Measured {
            name: "homing, its workers",
            address: ours.address.clone(),
            process: ours.id(),
        },
        over_dynamo.measured("homing, dynamo's workers"),
        dynamo.measured("dynamo, its workers"),
    ];
    say(&format!(
        "{CLIENTS} clients, {rounds} turns of {} s each, tokenizer of {}",
        turn.as_secs(),
        model.display()
    ));
    say(
        "ms of the frontend's CPU per request, best turn and median; ratio to dynamo: median over rounds",
    );
    let mut texts = Texts::new()?;
    let turns = Turns {
        rounds,
        length: turn,
    };
    for load in LOADS {
        say(&format!(
            "{} words, answers of {} tokens",
            load.words, load.tokens
        ));
        compare(&frontends, &mut texts, load, turns).await?;
    }
    Ok(())
}

async fn compare(
    frontends: &[Measured; 3],
    texts: &mut Texts,
    load: Load,
    turns: Turns,
) -> anyhow::Result<()> {
    let mut figures = [const { Vec::new() }; 3];
    for frontend in frontends {
        drive(frontend, texts, load, Until::Requests(FIRST_REQUESTS)).await?;
    }
    for round in 0..turns.rounds {
        for place in 0..frontends.len() {
            // Nobody is always the first.
            let side = (place + round) % frontends.len();
            let frontend = &frontends[side];
            let before = cpu_of(frontend.process)?;
            let until = Until::Moment(Instant::now() + turns.length);
            let requests = drive(frontend, texts, load, until).await?;
            let spent = cpu_of(frontend.process)? - before;
            figures[side].push(spent.as_secs_f64() * 1e3 / requests as f64);
        }
    }
    let [.., dynamo] = figures.clone();
    for (frontend, figures) in frontends.iter().zip(&mut figures) {
        let mut ratios: Vec<f64> = dynamo.iter().zip(&*figures).map(|(d, f)| d / f).collect();
        say(&format!(
            "  {:<28} {:>7.3} {:>7.3}   dynamo / this {:>6.2}",
            frontend.name,
            best(figures),
            median(figures),
            median(&mut ratios),
        ));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Until {
    Requests(usize),
    Moment(Instant),
}

/// Sends requests from all clients, and returns how many were answered.
async fn drive(
    frontend: &Measured,
    texts: &mut Texts,
    load: Load,
    until: Until,
) -> anyhow::Result<usize> {
    let mut answered = 0;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client::connect(&frontend.address).await?);
    }
    let over = |answered| match until {
        Until::Requests(most) => answered >= most,
        Until::Moment(end) => Instant::now() >= end,
    };
    // In waves: the client's own work on the next texts is not beside the server's.
    while !over(answered) {
        let mut wave = JoinSet::new();
        for mut client in clients.drain(..) {
            let body = texts.request(load);
            wave.spawn(async move {
                let served = client.request(&body).await;
                (client, served)
            });
        }
        for (client, served) in wave.join_all().await {
            let served = served.with_context(|| format!("{} failed", frontend.name))?;
            ensure!(served.events > 0, "an answer without tokens");
            answered += 1;
            clients.push(client);
        }
    }
    Ok(answered)
}

/// A frontend over Dynamo's workers.
struct Started {
    frontend: dynamo::Frontend,
    port: u16,
}

impl Started {
    fn measured(&self, name: &'static str) -> Measured {
        Measured {
            name,
            address: format!("127.0.0.1:{}", self.port),
            process: self.frontend.id(),
        }
    }
}

fn started(side: Side, setting: &Setting) -> anyhow::Result<Started> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port();
    let frontend = dynamo::Frontend::start(side, setting, port)?;
    dynamo::wait_for_workers(side, port)?;
    Ok(Started { frontend, port })
}

/// What both frontends read. Dynamo wants a config.json, which a folder with a tokenizer alone lacks.
fn copy_model(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for name in [
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
    ] {
        let file = from.join(name);
        if file.is_file() {
            fs::copy(&file, to.join(name)).with_context(|| file.display().to_string())?;
        }
    }
    ensure!(
        to.join("tokenizer.json").is_file(),
        "--model-path: {} has no tokenizer.json",
        from.display()
    );
    let config = to.join("config.json");
    if config.is_file() {
        return Ok(());
    }
    say("the folder has no config.json: one is made up");
    let end = end_of_text(&to.join("tokenizer_config.json"))?;
    let made_up = json!({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "bos_token_id": end, "eos_token_id": end, "hidden_size": 64, "intermediate_size": 128,
        "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2,
        "vocab_size": 200_000, "max_position_embeddings": 131_072, "torch_dtype": "bfloat16"});
    fs::write(config, made_up.to_string())?;
    Ok(())
}

/// The id of the token that the tokenizer's settings call `eos_token`.
fn end_of_text(settings: &Path) -> anyhow::Result<u32> {
    let settings: Value = serde_json::from_str(&fs::read_to_string(settings)?)?;
    let end = &settings["eos_token"];
    let end = end.as_str().or(end["content"].as_str());
    let added = settings["added_tokens_decoder"].as_object();
    let mut added = added.into_iter().flatten();
    let found = added.find(|(_, token)| token["content"].as_str() == end && end.is_some());
    let (id, _) = found.context("tokenizer_config.json does not say which token ends an answer")?;
    Ok(id.parse()?)
}

/// Prompts of words that occur in the documentation.
struct Texts {
    words: Vec<String>,
    random: Random,
}

impl Texts {
    fn new() -> anyhow::Result<Self> {
        let mut words = Vec::new();
        let mut pages: Vec<PathBuf> = fs::read_dir(repository::root().join("docs"))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .collect();
        pages.sort();
        for page in pages {
            let text = fs::read_to_string(page)?;
            words.extend(text.split_whitespace().map(str::to_owned));
        }
        Ok(Self {
            words,
            random: Random::new(1),
        })
    }

    fn request(&mut self, load: Load) -> Vec<u8> {
        let drawn: Vec<&str> = (0..load.words)
            .map(|_| self.words[self.random.below(self.words.len())].as_str())
            .collect();
        let body = json!({"model": NAME, "stream": true, "max_tokens": load.tokens,
            "messages": [{"role": "user", "content": drawn.join(" ")}]});
        post("/v1/chat/completions", &body.to_string())
    }
}
