//! An admitted request that is being answered, and the resources that it holds.
//!
//! Its place inside, its record and its workers hang on the [`Exchange`] and go with it.

use std::sync::Arc;

use contract::RequestId;
use openai::{Extensions, GenerationOptions, Usage};

use crate::App;
use crate::answer::{Answer, answer_id};
use crate::caller::Caller;
use crate::drive::Permits;
use crate::intake::Claim;
use crate::metrics::RequestRecord;
use crate::model::ServedModel;
use crate::shape::Shape;

#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) app: Arc<App>,
    pub(crate) model: Arc<ServedModel>,
    pub(crate) shape: Shape,
    pub(crate) record: Arc<RequestRecord>,
    pub(crate) answers: Vec<Answer>,
    /// At least 1.
    answers_per_prompt: u32,
    /// What to write before each answer: prompts that are to be echoed.
    pub(crate) echoes: Vec<String>,
    pub(crate) include_usage: bool,
    pub(crate) continuous_usage: bool,
    pub(crate) extensions: Extensions,
    pub(crate) id: String,
    pub(crate) created: u64,
}

/// What a request holds from its admission on.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) id: RequestId,
    pub(crate) model: Arc<ServedModel>,
    pub(crate) caller: Caller,
    /// On the memory of its body.
    pub(crate) claim: Claim,
    pub(crate) permits: Permits,
}

/// What the walk to the workers yields.
pub(crate) struct Served {
    pub(crate) options: GenerationOptions,
    pub(crate) echoes: Vec<String>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) shape: Shape,
}

impl Exchange {
    pub(crate) fn new(
        app: Arc<App>,
        model: Arc<ServedModel>,
        record: Arc<RequestRecord>,
        served: Served,
    ) -> Self {
        Self {
            created: app.unix_now(),
            id: answer_id(served.shape.id_prefix()),
            app,
            model,
            shape: served.shape,
            record,
            answers: served.answers,
            answers_per_prompt: served.options.n,
            echoes: served.echoes,
            include_usage: served.options.include_usage,
            continuous_usage: served.options.continuous_usage_stats,
            extensions: served.options.extensions,
        }
    }

    /// Those that answer, in the order of the prompts; of a stream, those that do by now.
    pub(crate) fn workers(&self) -> String {
        let workers = self.answers.iter().filter_map(Answer::worker);
        let workers: Vec<String> = workers.map(|worker| worker.to_string()).collect();
        workers.join(",")
    }

    /// The usage of all answers together.
    pub(crate) fn total_usage(&self) -> Usage {
        let (mut prompt, mut output, mut cached) = (0, 0, 0);
        let (mut accepted, mut rejected) = (0, 0);
        for Answer { usage, index, .. } in &self.answers {
            // A prompt counts once, however many answers it gets.
            if index % self.answers_per_prompt == 0 {
                prompt += usage.prompt_tokens;
                cached += usage
                    .prompt_tokens_details
                    .unwrap_or_default()
                    .cached_tokens;
            }
            output += usage.completion_tokens;
            let guesses = usage.completion_tokens_details.unwrap_or_default();
            accepted += guesses.accepted_prediction_tokens.unwrap_or(0);
            rejected += guesses.rejected_prediction_tokens.unwrap_or(0);
        }
        Usage::new(prompt, output, cached).with_speculation(accepted + rejected, accepted)
    }
}
