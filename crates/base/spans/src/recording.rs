//! The spans of one request, from the first of its stages to the last who works on it.

use std::borrow::Cow;
use std::mem;
use std::sync::Arc;

use contract::{Moment, SpanId, TraceContext, TraceId};
use parking_lot::Mutex;

use crate::attribute::Attributes;
use crate::queue::Shared;
use crate::span::{Failure, FinishedTrace, Span, SpanKind};

/// Spans that one request may have: one of very many prompts has no more.
const MOST_SPANS: usize = 256;

/// A request that is recorded.
#[derive(Debug)]
struct Recording {
    tracer: Arc<Shared>,
    /// The request's own span.
    context: TraceContext,
    /// Of whoever asks.
    parent: Option<SpanId>,
    name: Cow<'static, str>,
    began: Moment,
    collected: Mutex<Collected>,
}

#[derive(Debug, Default)]
struct Collected {
    spans: Vec<Span>,
    left_out: u32,
    attributes: Attributes,
    /// How it ended, and when. The first word on that is the last.
    ended: Option<(Moment, Option<Failure>)>,
}

impl Recording {
    fn push(&self, span: Span) {
        let mut collected = self.collected.lock();
        match collected.spans.len() + 1 < MOST_SPANS {
            true => collected.spans.push(span),
            false => collected.left_out += 1,
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let Collected {
            spans: stages,
            left_out,
            attributes,
            ended,
        } = mem::take(self.collected.get_mut());
        let (ended, failure) = ended.unwrap_or_else(|| {
            // Nobody said how it ended: whoever asked went away.
            let failure = Failure {
                kind: "cancelled",
                message: String::new(),
                fault: false,
            };
            (self.tracer.now(), Some(failure))
        });
        let mut spans = Vec::with_capacity(stages.len() + 1);
        spans.push(Span {
            id: self.context.span,
            parent: self.parent,
            name: mem::take(&mut self.name),
            kind: SpanKind::Server,
            began: self.began,
            ended,
            attributes,
            failure,
        });
        spans.extend(stages);
        self.tracer.offer(Box::new(FinishedTrace {
            context: self.context.clone(),
            remote_parent: self.parent.is_some(),
            spans,
            left_out,
        }));
    }
}

/// A request's place in a trace, and its spans if it is recorded. Clones belong to the same request;
/// it is over when the last of them is dropped.
#[derive(Clone, Debug, Default)]
pub struct RequestTrace {
    /// What whoever computes the answer is told; of a request that is recorded, its own span.
    context: Option<TraceContext>,
    /// Whether somebody else knows the trace too.
    known: bool,
    recording: Option<Arc<Recording>>,
}

impl RequestTrace {
    /// One that is not recorded.
    pub(crate) fn passing(context: Option<TraceContext>, known: bool) -> Self {
        Self {
            context,
            known,
            recording: None,
        }
    }

    pub(crate) fn recorded(
        tracer: Arc<Shared>,
        context: TraceContext,
        parent: Option<SpanId>,
        name: Cow<'static, str>,
    ) -> Self {
        let recording = Recording {
            began: tracer.now(),
            tracer,
            context: context.clone(),
            parent,
            name,
            collected: Mutex::default(),
        };
        Self {
            context: Some(context),
            known: true,
            recording: Some(Arc::new(recording)),
        }
    }

    pub fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }

    /// Under which the request can be found elsewhere; `None` if nobody else knows it.
    pub fn id(&self) -> Option<TraceId> {
        let context = self.context.as_ref().filter(|_| self.known);
        context.map(|context| context.trace)
    }

    /// What is passed on where no stage of ours asks.
    pub fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    /// Adds to what the request's own span says, if it is recorded.
    pub fn describe(&self, describe: impl FnOnce(&mut Attributes)) {
        if let Some(recording) = &self.recording {
            describe(&mut recording.collected.lock().attributes);
        }
    }

    /// The request is over. The first word on that is the last.
    pub fn end(&self, failure: impl FnOnce() -> Option<Failure>) {
        if let Some(recording) = &self.recording {
            let now = recording.tracer.now();
            let ended = &mut recording.collected.lock().ended;
            ended.get_or_insert_with(|| (now, failure()));
        }
    }

    /// Begins a stage of the request.
    pub fn stage(&self, name: &'static str) -> Stage {
        self.begin(name, SpanKind::Internal)
    }

    /// Begins an exchange with whoever computes the answer.
    pub fn client(&self, name: &'static str) -> Stage {
        self.begin(name, SpanKind::Client)
    }

    fn begin(&self, name: &'static str, kind: SpanKind) -> Stage {
        let Some(recording) = &self.recording else {
            return Stage::default();
        };
        Stage::open(recording, recording.context.span, name, kind)
    }
}

/// A stage of a request. It ends when it is dropped; of a request that is not recorded, it is
/// nothing.
#[derive(Debug, Default)]
#[must_use = "a stage ends when it is dropped"]
pub struct Stage {
    open: Option<Box<Open>>,
}

#[derive(Debug)]
struct Open {
    recording: Arc<Recording>,
    span: Span,
}

impl Stage {
    fn open(
        recording: &Arc<Recording>,
        parent: SpanId,
        name: &'static str,
        kind: SpanKind,
    ) -> Self {
        let now = recording.tracer.now();
        let span = Span {
            id: recording.tracer.ids.span(),
            parent: Some(parent),
            name: Cow::Borrowed(name),
            kind,
            began: now,
            ended: now,
            attributes: Attributes::default(),
            failure: None,
        };
        Self {
            open: Some(Box::new(Open {
                recording: Arc::clone(recording),
                span,
            })),
        }
    }

    /// Begins a part of this stage.
    pub fn stage(&self, name: &'static str) -> Self {
        match &self.open {
            None => Self::default(),
            Some(open) => Self::open(&open.recording, open.span.id, name, SpanKind::Internal),
        }
    }

    /// A part of this stage that is over, and was known only now.
    pub fn past(&self, name: &'static str, began: Moment, ended: Moment) {
        let mut part = self.stage(name);
        if let Some(open) = part.open.take() {
            let Open {
                recording,
                mut span,
            } = *open;
            (span.began, span.ended) = (began, ended.max(began));
            recording.push(span);
        }
    }

    /// Adds to what the span says, if there is one.
    pub fn describe(&mut self, describe: impl FnOnce(&mut Attributes)) {
        if let Some(open) = &mut self.open {
            describe(&mut open.span.attributes);
        }
    }

    /// Says that it did not succeed.
    pub fn fail(&mut self, failure: impl FnOnce() -> Failure) {
        if let Some(open) = &mut self.open {
            open.span.failure = Some(failure());
        }
    }

    pub fn is_recorded(&self) -> bool {
        self.open.is_some()
    }

    /// For whoever is asked in this stage.
    pub fn context(&self) -> Option<TraceContext> {
        let Open { recording, span } = self.open.as_deref()?;
        Some(recording.context.with_span(span.id))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            let Open {
                recording,
                mut span,
            } = *open;
            span.ended = recording.tracer.now();
            recording.push(span);
        }
    }
}
