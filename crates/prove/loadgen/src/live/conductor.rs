//! The task that owns the conversations.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::{Clock, Moment};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::turn::{Report, Sender, Turn};
use super::{Command, LiveConfig, LiveParts, Order, RecordSink, Shared};
use crate::client::{Exchange, Message};
use crate::driver::{Driver, Ending, Fate};
use crate::failure::Failure;
use crate::log::{ConversationStatus, Opening};
use crate::readiness::Readiness;
use crate::record::{Occasion, RequestRecord};
use crate::script::TurnPlan;
use crate::settings::StarterMode;
use crate::snapshot::Phase;
use crate::starter::Starter;

/// Attempts at a turn before its conversation is abandoned. A server that is unreachable or
/// full is retried forever.
const ATTEMPTS: u32 = 3;

/// Reports that may wait. Senders wait beyond that, after their clocks were read.
const REPORTS: usize = 1024;

pub(super) struct Conductor {
    config: LiveConfig,
    starters: Vec<Starter>,
    sender: Sender,
    reports: mpsc::Receiver<Report>,
    records: Option<RecordSink>,
    driver: Driver,
    /// Conversations that are not over, by their lanes.
    lanes: BTreeMap<usize, Lane>,
    shared: Arc<Shared>,
    clock: Clock,
    ready: Readiness,
    /// Ends the running requests.
    cancel: CancellationToken,
}

/// One conversation.
struct Lane {
    id: Arc<str>,
    number: u64,
    turn: u32,
    attempt: u32,
    place: ConversationState,
}

/// What a conversation waits for.
enum ConversationState {
    /// The user is thinking; this is the history.
    Idle(Vec<Message>),
    /// The user model is writing the next question.
    Writing,
    /// The server is answering, since this moment.
    InFlight(Moment),
}

impl Conductor {
    pub(super) fn new(
        config: LiveConfig,
        parts: LiveParts,
        driver: Driver,
        shared: Arc<Shared>,
    ) -> Self {
        let (sender, reports) = mpsc::channel(REPORTS);
        Self {
            sender: Sender {
                client: parts.client,
                user_model: parts.user_model,
                clock: parts.clock,
                seed: config.seed,
                sampling_seeds: config.sampling_seeds,
                shared: Arc::clone(&shared),
                reports: sender,
            },
            config,
            starters: parts.starters,
            reports,
            records: parts.records,
            driver,
            lanes: BTreeMap::new(),
            shared,
            clock: parts.clock,
            ready: parts.ready,
            cancel: CancellationToken::new(),
        }
    }

    /// Runs until all command senders are gone, then ends the running requests.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>, tasks: TaskTracker) {
        self.driver.close();
        loop {
            let now = self.clock.now();
            while let Some((due, plan)) = self.driver.take(now) {
                self.dispatch(due, plan, &tasks);
            }
            self.account();
            let wait = self.driver.next_due(now).map(|due| due - now);
            let waits = self.shared.measurements.lock().phase == Phase::Waiting;
            tokio::select! {
                // Orders are rare and go first; a fixed order makes equal runs equal.
                biased;
                order = orders.recv() => match order {
                    Some((order, done)) => {
                        self.obey(order);
                        // The caller may have gone.
                        let _ = done.send(());
                    }
                    None => break,
                },
                report = self.reports.recv() => match report {
                    Some(report) => self.handle_report(report),
                    None => break,
                },
                () = self.ready.ready(), if waits => self.start(self.clock.now()),
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
        self.cancel.cancel();
    }

    fn obey(&mut self, order: Command) {
        let now = self.clock.now();
        let phase = self.shared.measurements.lock().phase;
        match order {
            Command::Start => match phase {
                Phase::Stopped if !self.ready.is_ready() => self.set_phase(Phase::Waiting),
                Phase::Stopped => self.start(now),
                Phase::Paused => self.resume(now),
                // Running requests end into the new run.
                Phase::Draining => self.start(now),
                Phase::Running | Phase::Waiting => {}
            },
            Command::Pause if phase == Phase::Running => {
                self.driver.pause();
                self.set_phase(Phase::Paused);
            }
            Command::Resume if phase == Phase::Paused => self.resume(now),
            Command::Drain if phase != Phase::Stopped => {
                self.close(now);
                self.set_phase(Phase::Draining);
            }
            Command::Stop if phase != Phase::Stopped => {
                self.close(now);
                self.cancel.cancel();
                self.cancel = CancellationToken::new();
                self.set_phase(Phase::Draining);
            }
            Command::Pause | Command::Resume | Command::Drain | Command::Stop => {}
            Command::Set(settings) => {
                self.config.settings = *settings;
                let settings = self.config.settings.clone();
                self.shared.measurements.lock().change(settings, now);
                self.apply_settings(now);
            }
        }
        self.stop_if_idle();
    }

    fn start(&mut self, now: Moment) {
        self.driver.reopen(now);
        self.apply_settings(now);
        self.shared.measurements.lock().start(now);
    }

    fn resume(&mut self, now: Moment) {
        self.driver.resume(now);
        self.set_phase(Phase::Running);
    }

    fn apply_settings(&mut self, now: Moment) {
        let settings = &self.config.settings;
        let pool = self.starters.len() as u32;
        self.driver.set_script(settings.script(pool));
        self.driver.set_schedule(settings.schedule());
        self.driver.limit_rate(settings.max_requests_per_second);
        self.driver.set_arrivals(settings.arrivals_per_second, now);
    }

    fn set_phase(&mut self, phase: Phase) {
        self.shared.measurements.lock().set_phase(phase);
    }

    /// Sends nothing more: conversations whose user was thinking end here.
    fn close(&mut self, now: Moment) {
        self.driver.close();
        let idle = |lane: &Lane| matches!(lane.place, ConversationState::Idle(_));
        let idle: Vec<usize> = self
            .lanes
            .iter()
            .filter(|(_, lane)| idle(lane))
            .map(|(&at, _)| at)
            .collect();
        for at in idle {
            self.end(at, ConversationStatus::Stopped, now);
        }
    }

    fn stop_if_idle(&mut self) {
        let mut measurements = self.shared.measurements.lock();
        if measurements.phase == Phase::Draining && self.lanes.is_empty() {
            measurements.conversations.active = 0;
            measurements.conversations.in_flight = 0;
            measurements.conversations.writing = 0;
            measurements.conversations.idle = 0;
            measurements.set_phase(Phase::Stopped);
        }
    }

    fn dispatch(&mut self, due: Moment, plan: TurnPlan, tasks: &TaskTracker) {
        let known = self.lanes.get(&plan.lane);
        if known.is_none_or(|lane| lane.number != plan.conversation) {
            self.open(due, &plan);
        }
        let Some(lane) = self.lanes.get_mut(&plan.lane) else {
            return;
        };
        lane.turn = plan.turn;
        let asks = plan.turn > 0 && lane.attempt == 0 && self.sender.user_model.is_some();
        let place = match asks {
            true => ConversationState::Writing,
            false => ConversationState::InFlight(due),
        };
        let ConversationState::Idle(messages) = std::mem::replace(&mut lane.place, place) else {
            return;
        };
        let turn = Turn {
            plan,
            due,
            session: Arc::clone(&lane.id),
            messages,
            attempt: lane.attempt,
        };
        tasks.spawn(self.sender.clone().send(turn, self.cancel.clone()));
    }

    /// A conversation begins.
    fn open(&mut self, due: Moment, plan: &TurnPlan) {
        let starter = &self.starters[plan.starter as usize % self.starters.len()];
        let unique = self.config.settings.starters == StarterMode::Unique;
        let message = starter.message(self.config.seed, plan.conversation, unique);
        let message: Arc<str> = message.into();
        let id: Arc<str> = uuid::Uuid::now_v7().to_string().into();
        let mut log = self.shared.log.lock();
        log.begin(Opening {
            id: Arc::clone(&id),
            number: plan.conversation,
            title: Arc::clone(&starter.title),
            turns_planned: plan.turns,
            at: due,
        });
        log.ask(plan.conversation, 0, &message);
        drop(log);
        let lane = Lane {
            id,
            number: plan.conversation,
            turn: 0,
            attempt: 0,
            place: ConversationState::Idle(vec![Message::user(message)]),
        };
        self.lanes.insert(plan.lane, lane);
    }

    fn handle_report(&mut self, report: Report) {
        match report {
            Report::Asked {
                lane,
                question,
                fell_back,
            } => {
                if let Some(lane) = self.lanes.get_mut(&lane) {
                    lane.place = ConversationState::InFlight(self.clock.now());
                    let mut log = self.shared.log.lock();
                    log.ask(lane.number, lane.turn, &question);
                }
                if fell_back {
                    self.shared.measurements.lock().user_model_failed();
                }
            }
            Report::Ended { turn, exchange } => match exchange {
                Some(exchange) => self.settle(*turn, *exchange),
                None => {
                    let now = self.clock.now();
                    // Load may have been started again since, and begins again.
                    self.driver.ended(turn.plan.lane, Ending::Impossible, now);
                    self.end(turn.plan.lane, ConversationStatus::Stopped, now);
                }
            },
        }
        self.stop_if_idle();
    }

    /// A request ended, with an answer or without.
    fn settle(&mut self, turn: Turn, exchange: Exchange) {
        let occasion = Occasion {
            conversation_id: &turn.session,
            plan: &turn.plan,
            attempt: turn.attempt,
            due: turn.due,
        };
        let record = RequestRecord::new(&occasion, &exchange);
        if let Some(sink) = &mut self.records {
            sink(&record, &exchange);
        }
        let lag = exchange.sent - turn.due;
        let mut measurements = self.shared.measurements.lock();
        measurements.observe(&exchange, turn.plan.turn, lag);
        drop(measurements);

        let mut messages = turn.messages;
        let at = turn.plan.lane;
        let ending = match exchange.outcome {
            Ok(answer) => {
                let text: Arc<str> = answer.text.into();
                let mut log = self.shared.log.lock();
                log.request(record, Some(Arc::clone(&text)));
                messages.push(Message::assistant(text));
                Ending::Answered
            }
            Err(failure) => {
                self.shared.log.lock().request(record, None);
                ending(&failure, turn.attempt)
            }
        };
        let fate = self.driver.ended(at, ending, exchange.ended);
        let status = match (fate, ending) {
            (Fate::GoesOn, _) => {
                if let Some(lane) = self.lanes.get_mut(&at) {
                    lane.place = ConversationState::Idle(messages);
                    lane.attempt = match ending {
                        Ending::Answered | Ending::Impossible => 0,
                        Ending::Failed => turn.attempt + 1,
                    };
                }
                return;
            }
            (Fate::Over, Ending::Answered) => ConversationStatus::Completed,
            (Fate::Over, _) => ConversationStatus::Error,
            (Fate::Dropped, _) => ConversationStatus::Stopped,
        };
        self.end(at, status, exchange.ended);
    }

    fn end(&mut self, at: usize, status: ConversationStatus, now: Moment) {
        if let Some(lane) = self.lanes.remove(&at) {
            self.shared.log.lock().end(lane.number, status, now);
            let mut measurements = self.shared.measurements.lock();
            measurements.conversation_ended(status);
        }
    }

    /// Writes down how many conversations are where.
    fn account(&mut self) {
        let count = |wanted: fn(&ConversationState) -> bool| {
            let lanes = self.lanes.values();
            lanes.filter(|lane| wanted(&lane.place)).count() as u32
        };
        let since = self.lanes.values().filter_map(|lane| match lane.place {
            ConversationState::InFlight(since) => Some(since),
            ConversationState::Idle(_) | ConversationState::Writing => None,
        });
        let oldest = since.min();
        let mut measurements = self.shared.measurements.lock();
        measurements.oldest_in_flight = oldest;
        let counts = &mut measurements.conversations;
        // The driver's number, which includes those that may not send their first turn yet.
        counts.active = self.driver.active();
        counts.writing = count(|place| matches!(place, ConversationState::Writing));
        counts.in_flight = count(|place| matches!(place, ConversationState::InFlight(_)));
        counts.idle = counts
            .active
            .saturating_sub(counts.writing + counts.in_flight);
        counts.begun = self.driver.begun();
        measurements.refresh_gauges();
    }
}

fn ending(failure: &Failure, attempt: u32) -> Ending {
    match failure.is_passing() || attempt + 1 < ATTEMPTS {
        true => Ending::Failed,
        false => Ending::Impossible,
    }
}
