//! One turn on its way: the task that writes the question, if a model does, and sends it.

use std::sync::Arc;

use contract::random::mix;
use contract::{Clock, Moment};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::meter::Meter;
use crate::client::{Chat, Client, Exchange, Message, Role};
use crate::follow_up::{self, TurnPosition};
use crate::record::TurnType;
use crate::script::TurnPlan;
use crate::user_model::UserModel;

/// Separates these draws from others with the same seed.
const SAMPLING: u64 = 0x5a;

/// A turn to be sent.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) plan: TurnPlan,
    /// When it became due. Moved to when the question was there, if a model wrote it.
    pub(super) due: Moment,
    pub(super) session: Arc<str>,
    /// The history. If its last message is an answer, a question is still to be written.
    pub(super) messages: Vec<Message>,
    pub(super) attempt: u32,
}

/// Reports of a turn to the conductor.
#[derive(Debug)]
pub(super) enum Report {
    /// The user model has written, or failed to: the request begins.
    Asked {
        lane: usize,
        question: Arc<str>,
        fell_back: bool,
    },
    /// The turn is over; without an exchange if it was cancelled.
    Ended {
        turn: Box<Turn>,
        exchange: Option<Box<Exchange>>,
    },
}

/// Sends turns and reports how they ended.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) client: Client,
    pub(super) user_model: Option<UserModel>,
    pub(super) clock: Clock,
    pub(super) seed: u64,
    /// Whether requests carry a seed for their answers.
    pub(super) sampling_seeds: bool,
    pub(super) shared: Arc<Shared>,
    pub(super) reports: tokio::sync::mpsc::Sender<Report>,
}

impl Sender {
    pub(super) async fn send(self, mut turn: Turn, cancel: CancellationToken) {
        let exchange = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            exchange = self.exchange(&mut turn) => Some(Box::new(exchange)),
        };
        let turn = Box::new(turn);
        // Fails only if the conductor is gone, and then nobody asks.
        let _ = self.reports.send(Report::Ended { turn, exchange }).await;
    }

    async fn exchange(&self, turn: &mut Turn) -> Exchange {
        if let Some(answer) = unanswered(&turn.messages) {
            self.ask(turn, &answer).await;
        }
        let chat = Chat {
            messages: &turn.messages,
            max_tokens: turn.plan.max_tokens,
            session: &turn.session,
            seed: self
                .sampling_seeds
                .then(|| sampling_seed(self.seed, &turn.plan)),
        };
        let turn_type = TurnType::of(turn.plan.turn);
        let mut meter = Meter::new(Arc::clone(&self.shared), turn_type);
        self.client.chat(&chat, &mut meter).await
    }

    async fn ask(&self, turn: &mut Turn, answer: &str) {
        let place = TurnPosition {
            seed: self.seed,
            conversation: turn.plan.conversation,
            turn: turn.plan.turn,
        };
        let built_in = || follow_up::question(answer, place);
        let (question, fell_back) = match &self.user_model {
            None => (built_in(), false),
            Some(model) => {
                let written = model.question(answer, &turn.session).await;
                turn.due = self.clock.now();
                let fell_back = written.is_none();
                (written.unwrap_or_else(built_in), fell_back)
            }
        };
        let question: Arc<str> = question.into();
        turn.messages.push(Message::user(Arc::clone(&question)));
        let report = Report::Asked {
            lane: turn.plan.lane,
            question,
            fell_back,
        };
        // As above.
        let _ = self.reports.send(report).await;
    }
}

/// Small enough for every server that takes a number.
fn sampling_seed(seed: u64, plan: &TurnPlan) -> u32 {
    (mix(seed ^ SAMPLING, plan.conversation, u64::from(plan.turn)) >> 33) as u32
}

/// The answer that nobody has asked about yet.
fn unanswered(messages: &[Message]) -> Option<Arc<str>> {
    let last = messages.last()?;
    (last.role == Role::Assistant).then(|| Arc::clone(&last.content))
}
