//! Servers that run already: steps are brought about by requests, and timed by when tokens arrive.

use std::sync::Arc;
use std::time::Duration;

use adapters::{EngineSettings, EngineSpec, Engines, Timing, Tokenize};
use anyhow::{Context as _, bail, ensure};
use contract::random::{Random, mix};
use contract::{BlockFormat, Clock, Moment, TokenId, WorkerCard};
use engine::calibration::{self, Facts, Origins, Shape, arrivals};
use engine::{Drafting, Limits};
use futures_util::future::try_join_all;
use preprocess::{Preprocessor, Specials};
use tasks::Tasks;
use telemetry::Registry;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use transport::{Change, WorkerLink};

use super::{Seconds, Workers, measure, report};
use crate::args::CalibrateArgs;
use crate::plan::ModelPlan;
use crate::{environment, print};

/// Tokens of each measured answer.
const ANSWER: u32 = 40;
/// Answers beside which a prompt is computed are longer: they must not end before it is.
const ANSWER_BESIDE_PROMPT: u32 = 64;
/// Tokens of these answers after which the prompt is sent.
const TOKENS_BEFORE_PROMPT: usize = 4;
/// Prompts of one shape in a row; the middle time counts.
const PROMPTS: usize = 3;
/// Servers join within this time, or something is wrong with one.
const JOIN_PATIENCE: Duration = Duration::from_secs(60);
/// For the next token of any answer. Filling the cache of a slow server takes minutes.
const TOKEN_PATIENCE: Duration = Duration::from_secs(600);
/// What prompts are made of. An engine that returns text goes on in words, which arrive one by one; what
/// it makes of tokens at random may be held back for long, because it is no text yet.
const WORDS: [&str; 24] = [
    " the", " old", " harbour", " was", " quiet", " when", " a", " small", " boat", " came",
    " home", " with", " bread", ",", " salt", " and", " letters", " from", " many", " people",
    " who", " wait", " there", ".",
];

/// The text of the profile.
pub(super) fn profile(args: &CalibrateArgs) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = Tasks::new();
    let text = runtime.block_on(measured_profile(args, &tasks));
    tasks.stop.cancel();
    text
}

async fn measured_profile(args: &CalibrateArgs, tasks: &Tasks) -> anyhow::Result<String> {
    let model = args.model.resolve()?;
    let clock = Clock::start();
    let preprocessor = model.preprocessor(u32::MAX)?;
    let words = words(&preprocessor)?;
    let joined = join(args, &model, &preprocessor, clock, tasks).await?;
    let card = joined[0].0.clone();
    let mut limits = limits(&joined, args);
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    let server = |((_, link), number)| Server {
        link,
        clock,
        seed: mix(seed, number, 0),
        words: Arc::clone(&words),
        prompts: 0,
    };
    let mut servers = Servers {
        servers: joined.into_iter().zip(0..).map(server).collect(),
        waits: Vec::new(),
    };
    let shapes = calibration::served_shapes(&limits, ANSWER_BESIDE_PROMPT);
    let mut measured = measure(&mut servers, shapes, &limits, args.repeats as usize).await?;
    let overhead = arrivals::take_off_overhead(&mut measured.steps);
    limits.intake_steps = arrivals::intake_steps(&servers.waits, overhead);
    let fit = calibration::fit(&measured.steps);
    report(&measured, &fit);
    print::line(format_args!(
        "a request takes {:.1} ms beyond its steps, which the profile leaves out; a busy server lets it join after {} step(s)",
        overhead * 1e3,
        limits.intake_steps
    ));
    let kind = args.upstreams[0].kind;
    let method = format!(
        "homing calibrate --upstream: {} {kind} server(s) at once, timed by when tokens arrive; the constants explain half of the steps within {:.1} %, all within {:.1} %; a request takes {:.1} ms more",
        servers.count(),
        fit.median_error * 100.0,
        fit.worst_error * 100.0,
        overhead * 1e3,
    );
    Ok(calibration::profile(
        &Facts {
            about: &format!("{} on {} {kind} server(s)", card.model, servers.count()),
            model: card.model.as_str(),
            workers: servers.count() as u32,
            device: &format!("{kind} server"),
            method: &method,
            limits: &limits,
            shares: &measured.shares,
            origins: Origins::API,
        },
        &fit,
    ))
}

/// A word that the vocabulary does not have is left out.
fn words(preprocessor: &Preprocessor) -> anyhow::Result<Arc<[Vec<TokenId>]>> {
    let encode = |word| preprocessor.tokenizer().encode(word, Specials::Plain);
    let mut words = WORDS
        .into_iter()
        .map(encode)
        .collect::<Result<Vec<_>, _>>()?;
    words.retain(|tokens| !tokens.is_empty());
    ensure!(
        !words.is_empty(),
        "--model-path: the tokenizer knows no word"
    );
    Ok(words.into())
}

type Joined = Vec<(WorkerCard, Arc<dyn WorkerLink>)>;

/// The servers, in the order given, once all of them can be used.
async fn join(
    args: &CalibrateArgs,
    model: &ModelPlan,
    preprocessor: &Preprocessor,
    clock: Clock,
    tasks: &Tasks,
) -> anyhow::Result<Joined> {
    let tokenizer = Arc::clone(preprocessor.tokenizer());
    let settings = EngineSettings {
        model: match model.served_name()? {
            Some(name) => name,
            None => model.folder_name()?,
        },
        blocks: BlockFormat::new(args.kv_cache_block_size),
        max_context_tokens: args.server_context,
        clock,
        tokenize: Tokenize::new(move |text| {
            tokenizer.encode(text, Specials::Plain).unwrap_or_default()
        }),
        sample_prompt: None,
        api_key: match &args.upstream_api_key_env {
            Some(name) => Some(environment::secret(name).context("--upstream-api-key-env")?),
            None => None,
        },
        timing: Timing::default(),
        shared: None,
    };
    // What is in their caches does not matter here.
    let without_events = |spec: &EngineSpec| EngineSpec {
        events: None,
        replay: None,
        ..spec.clone()
    };
    let specs: Vec<EngineSpec> = args.upstreams.iter().map(without_events).collect();
    let ids: Vec<u64> = specs.iter().map(EngineSpec::worker_id).collect();
    let (roster, mut changes) = transport::roster();
    let names = Engines::start(specs, &settings, &roster, &Registry::new(), tasks)
        .context("--upstream")?
        .names()
        .join(", ");
    let mut joined = Joined::new();
    let all = async {
        while joined.len() < ids.len() {
            if let Some(Change::Joined(member)) = changes.next().await {
                joined.push((member.card, member.link));
            }
        }
    };
    if timeout(JOIN_PATIENCE, all).await.is_err() {
        bail!(
            "{} of {} servers could be used ({names}): examine them with `homing doctor`",
            joined.len(),
            ids.len()
        );
    }
    joined.sort_by_key(|(card, _)| ids.iter().position(|id| *id == card.id.0));
    Ok(joined)
}

/// What every one of the servers can do.
fn limits(joined: &Joined, args: &CalibrateArgs) -> Limits {
    let least = |of: fn(&WorkerCard) -> u32| {
        let all = joined.iter().map(|(card, _)| of(card));
        all.min().unwrap_or(0)
    };
    let block_size = args.kv_cache_block_size;
    Limits {
        block_size,
        total_blocks: least(|card| card.total_blocks),
        slots: least(|card| card.slots),
        max_step_tokens: args
            .server_step_tokens
            .unwrap_or_else(|| least(|card| card.max_step_tokens)),
        max_context_tokens: least(|card| card.max_context_tokens),
        vocabulary: u32::MAX,
        draft_tokens: 0,
        drafting: Drafting::EveryStep,
        recomputed_blocks: 0,
        intake_steps: 0,
        resident_bytes: 0,
        // One byte for each token: the API counts blocks.
        block_bytes: u64::from(block_size),
    }
}

/// Servers that make the steps that requests need, all of them the same at the same time.
struct Servers {
    servers: Vec<Server>,
    waits: Vec<arrivals::Wait>,
}

impl Workers for Servers {
    fn count(&self) -> usize {
        self.servers.len()
    }

    async fn round(
        &mut self,
        at_once: usize,
        shapes: &[Shape],
        round: usize,
    ) -> anyhow::Result<Vec<Seconds>> {
        let mut seconds = vec![0.0; shapes.len()];
        let servers = &mut self.servers[..at_once];
        for index in calibration::order(shapes.len(), mix(round as u64, at_once as u64, 0)) {
            let shape = &shapes[index];
            seconds[index] = match (shape.decoding, shape.prefill) {
                (_, 0) => decode(servers, shape).await?,
                (0, _) => prefill(servers, shape).await?,
                _ => decode_beside_prompt(servers, shape, &mut self.waits).await?,
            };
        }
        Ok(vec![seconds])
    }
}

async fn decode(servers: &[Server], shape: &Shape) -> anyhow::Result<f64> {
    let rows = try_join_all(servers.iter().map(|server| server.filled_rows(shape))).await?;
    let all = servers.iter().zip(&rows).flat_map(|(server, rows)| {
        let answers = rows.iter().map(|row| server.answer(row, ANSWER, None));
        answers.collect::<Vec<_>>()
    });
    arrivals::step(&try_join_all(all).await?).with_context(|| {
        format!(
            "{} answers were never written at the same time: the server runs fewer at once \
             (slots=), or does not reuse prefixes",
            shape.decoding
        )
    })
}

/// From the request to its first token.
async fn prefill(servers: &mut [Server], shape: &Shape) -> anyhow::Result<f64> {
    let prefixes: Vec<Vec<TokenId>> = servers
        .iter()
        .map(|server| server.row(0, shape.prefilled))
        .collect();
    if shape.prefilled > 0 {
        let fill = servers.iter().zip(&prefixes);
        try_join_all(fill.map(|(server, prefix)| server.answer(prefix, 1, None))).await?;
    }
    let mut times = Vec::new();
    for _ in 0..PROMPTS {
        let pairs = servers.iter_mut().zip(&prefixes);
        let prompts: Vec<Vec<TokenId>> = pairs
            .map(|(server, prefix)| [prefix.as_slice(), &server.fresh(shape.prefill)].concat())
            .collect();
        let pairs = servers.iter().zip(&prompts);
        let firsts = pairs.map(|(server, prompt)| server.first_token(prompt));
        times.extend(try_join_all(firsts).await?.iter().map(First::waited));
    }
    Ok(calibration::median(times))
}

async fn decode_beside_prompt(
    servers: &mut [Server],
    shape: &Shape,
    waits: &mut Vec<arrivals::Wait>,
) -> anyhow::Result<f64> {
    let rows = try_join_all(servers.iter().map(|server| server.filled_rows(shape))).await?;
    let prompts: Vec<Vec<TokenId>> = servers
        .iter_mut()
        .map(|server| server.fresh(shape.prefill))
        .collect();
    let begun = Semaphore::new(0);
    let needed = (shape.decoding * servers.len()) as u32;
    let beside = servers.iter().zip(&rows).zip(&prompts);
    let sessions = beside.map(async |((server, rows), prompt)| {
        let answers = rows
            .iter()
            .map(|row| server.answer(row, ANSWER_BESIDE_PROMPT, Some(&begun)));
        let prompted = async {
            // Given back at once, for the prompts of the other servers.
            drop(begun.acquire_many(needed).await?);
            server.first_token(prompt).await
        };
        tokio::try_join!(try_join_all(answers), prompted)
    });
    let mut times = Vec::new();
    for (answers, first) in try_join_all(sessions).await? {
        let step = arrivals::step_with_prompt(&answers, first.arrived)
            .context("the answers ended before the prompt was computed beside them")?;
        waits.push(arrivals::Wait::new(&answers, first.waited() - step));
        times.push(step);
    }
    Ok(calibration::median(times))
}

struct Server {
    link: Arc<dyn WorkerLink>,
    clock: Clock,
    seed: u64,
    /// The tokens of each of [`WORDS`].
    words: Arc<[Vec<TokenId>]>,
    /// Prompts that were sent once and will not be sent again.
    prompts: u64,
}

/// The first token of an answer.
struct First {
    asked: f64,
    arrived: f64,
}

impl First {
    fn waited(&self) -> f64 {
        self.arrived - self.asked
    }
}

impl Server {
    async fn first_token(&self, prompt: &[TokenId]) -> anyhow::Result<First> {
        let asked = self.now();
        let answer = self.answer(prompt, 1, None).await?;
        let arrived = answer.first().context("a server answered with no token")?;
        Ok(First {
            asked,
            arrived: *arrived,
        })
    }

    /// Prompts of the sequences that decode, which are in the cache by now.
    async fn filled_rows(&self, shape: &Shape) -> anyhow::Result<Vec<Vec<TokenId>>> {
        let rows: Vec<Vec<TokenId>> = (0..shape.decoding)
            .map(|row| self.row(row as u64, shape.context))
            .collect();
        try_join_all(rows.iter().map(|row| self.answer(row, 1, None))).await?;
        Ok(rows)
    }

    /// The first tokens of a sequence. Shapes share them, so that what is cached stays cached.
    fn row(&self, number: u64, length: usize) -> Vec<TokenId> {
        self.tokens(mix(self.seed, 0, number), length)
    }

    /// Tokens that no cache holds.
    fn fresh(&mut self, length: usize) -> Vec<TokenId> {
        self.prompts += 1;
        self.tokens(mix(self.seed, 1, self.prompts), length)
    }

    fn tokens(&self, seed: u64, length: usize) -> Vec<TokenId> {
        let mut random = Random::new(seed);
        let mut tokens = Vec::with_capacity(length);
        while tokens.len() < length {
            tokens.extend(&self.words[random.below(self.words.len())]);
        }
        tokens.truncate(length);
        tokens
    }

    /// When each token of an answer arrived. `begun` gets a permit when some are there.
    async fn answer(
        &self,
        prompt: &[TokenId],
        most: u32,
        begun: Option<&Semaphore>,
    ) -> anyhow::Result<Vec<f64>> {
        let silent = || format!("a server sent no token for {TOKEN_PATIENCE:?}");
        let asked = self.link.generate(calibration::request(prompt, most));
        let mut stream = timeout(TOKEN_PATIENCE, asked)
            .await
            .with_context(silent)??;
        let mut arrived = Vec::new();
        while let Some(chunk) = timeout(TOKEN_PATIENCE, stream.next())
            .await
            .with_context(silent)?
        {
            let tokens = chunk?.tokens.len();
            let had = arrived.len();
            arrived.extend(std::iter::repeat_n(self.now(), tokens));
            let enough = had < TOKENS_BEFORE_PROMPT && arrived.len() >= TOKENS_BEFORE_PROMPT;
            if let Some(begun) = begun.filter(|_| enough) {
                begun.add_permits(1);
            }
        }
        // Nobody waits for more of an answer that is over.
        if let Some(begun) = begun.filter(|_| arrived.len() < TOKENS_BEFORE_PROMPT) {
            begun.add_permits(1);
        }
        Ok(arrived)
    }

    fn now(&self) -> f64 {
        (self.clock.now() - Moment::ZERO).as_secs_f64()
    }
}
