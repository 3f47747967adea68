//! A recorded trace against a running server, in real time.
//!
//! Requests are sent when they are due, however many are being answered; those that wait for the
//! answer before them in their session are sent their pause after it. So a server that is slower
//! than the recorded one has more requests at once, and sessions that take longer.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use contract::{Clock, Moment, TokenId};
use lab::Trace;
use lab::trace_requests::{Sending, TraceRequest, TraceRequests};
use loadgen::client::{Client, Completion, Exchange};
use loadgen::record::{Occasion, seconds};
use loadgen::{Histogram, RequestRecord, TurnPlan};
use stats::raw::{CellFacts, CellName, RawCell, SCHEMA};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How often its watcher is told.
const LOOK: Duration = Duration::from_secs(1);
/// Answers that have ended and were not looked at yet.
const ENDED: usize = 1024;

/// What a replay is made of.
#[derive(Clone, Debug)]
pub struct LiveReplay {
    pub trace: Arc<Trace>,
    pub client: Client,
    /// The same as the client's.
    pub clock: Clock,
    /// What the trace's clock is divided by.
    pub speed: f64,
    pub seed: u64,
    /// Ids of the tokens that prompts are made of.
    pub words: Range<TokenId>,
    /// Whether the server says that it is simulated.
    pub simulated: bool,
    /// Once cancelled, nothing more is sent, and what is being answered is given up.
    pub stop: CancellationToken,
}

/// How far a replay is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayProgress {
    pub requests: usize,
    pub sent: usize,
    pub ended: usize,
    pub failed: usize,
    pub most_at_once: usize,
}

impl ReplayProgress {
    pub fn in_flight(&self) -> usize {
        self.sent - self.ended
    }
}

/// A request that has ended.
struct Ended {
    request: TraceRequest,
    exchange: Exchange,
}

/// What came of the requests so far.
#[derive(Default)]
struct Results {
    records: Vec<RequestRecord>,
    itl: Histogram,
    progress: ReplayProgress,
}

impl LiveReplay {
    /// Sends the trace to its last answer. `mode` is what the run is called; its facts about the
    /// server are left open.
    pub async fn run(&self, mode: &str, watcher: &mut dyn FnMut(ReplayProgress)) -> RawCell {
        let begin = self.clock.now();
        let mut requests = TraceRequests::new(
            Arc::clone(&self.trace),
            Sending {
                speed: self.speed,
                seed: self.seed,
                words: self.words.clone(),
                origin: begin,
            },
        );
        let mut results = Results::default();
        results.progress.requests = self.trace.len();
        let (sender, mut ended) = mpsc::channel(ENDED);
        let tasks = TaskTracker::new();
        let mut look = tokio::time::interval(LOOK);
        loop {
            while let Some(request) = requests.next(self.clock.now()) {
                results.sent();
                tasks.spawn(self.clone().send(request, sender.clone()));
            }
            let due = requests.next_due();
            if due.is_none() && results.progress.in_flight() == 0 {
                break;
            }
            tokio::select! {
                () = self.stop.cancelled() => break,
                () = until(due, self.clock) => {}
                Some(one) = ended.recv() => {
                    requests.ended(one.request.row, one.exchange.ended);
                    results.ended(&one, self.seed);
                }
                _ = look.tick() => watcher(results.progress),
            }
        }
        watcher(results.progress);
        self.cell(mode, begin, results)
    }

    async fn send(self, request: TraceRequest, ended: mpsc::Sender<Ended>) {
        let session = session(self.seed, &request);
        let completion = Completion {
            prompt: &request.prompt,
            tokens: request.output_tokens,
            session: &session,
        };
        let mut nobody = ();
        let answered = self.client.complete(&completion, &mut nobody);
        let Some(exchange) = self.stop.run_until_cancelled(answered).await else {
            return;
        };
        // Whoever no longer listens has been stopped.
        let _ = ended.send(Ended { request, exchange }).await;
    }

    fn cell(&self, mode: &str, begin: Moment, results: Results) -> RawCell {
        let ends = results.records.iter().map(|record| record.ended_s);
        // Everything is measured, also what was sent with the very last answer.
        let end = ends.fold(seconds(begin), f64::max) + 1e-6;
        RawCell {
            facts: CellFacts {
                schema: SCHEMA,
                name: CellName {
                    mode: mode.to_owned(),
                    concurrency: 0,
                    repeat: 1,
                },
                router_mode: None,
                seed: self.seed,
                simulated: self.simulated,
                profile: self.client.target().model.clone(),
                workers: None,
                window_begin_s: seconds(begin),
                window_end_s: end,
                measured_from_ms: None,
                steady: true,
                mode_confirmed: false,
                slots: None,
                server: None,
                speculation: None,
                virtual_run: None,
                itl: results.itl,
            },
            records: results.records,
        }
    }
}

impl Results {
    fn sent(&mut self) {
        self.progress.sent += 1;
        let at_once = self.progress.in_flight();
        self.progress.most_at_once = self.progress.most_at_once.max(at_once);
    }

    fn ended(&mut self, ended: &Ended, seed: u64) {
        let Ended { request, exchange } = ended;
        self.progress.ended += 1;
        match &exchange.outcome {
            Ok(answer) => {
                for gap in &answer.gaps {
                    self.itl.record(gap.per_token(), u64::from(gap.tokens));
                }
            }
            Err(_) => self.progress.failed += 1,
        }
        let plan = TurnPlan {
            lane: 0,
            conversation: request.place.session,
            turn: request.place.turn,
            turns: request.place.turns,
            starter: 0,
            starter_tokens: 0,
            follow_up_tokens: 0,
            max_tokens: request.output_tokens,
        };
        let occasion = Occasion {
            conversation_id: &session(seed, request),
            plan: &plan,
            attempt: 0,
            due: request.due,
        };
        self.records.push(RequestRecord::new(&occasion, exchange));
    }
}

fn session(seed: u64, request: &TraceRequest) -> String {
    format!("replay-{seed}-{}", request.place.session)
}

async fn until(due: Option<Moment>, clock: Clock) {
    match due {
        Some(due) => tokio::time::sleep(due - clock.now()).await,
        None => std::future::pending().await,
    }
}
