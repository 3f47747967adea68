//! An answer in one piece: waits for all of it, then sends one JSON document.

use std::future::poll_fn;

use answer_parser::Part;
use axum::Json;
use axum::response::{IntoResponse, Response};
use futures_util::future::try_join_all;
use openai::messages::{Ending, MessagesResponse};
use openai::{
    CallMade, ChatChoice, ChatCompletion, ChatMessage, Completion, CompletionChoice, FinishReason,
    ObjectKind, responses,
};

use crate::answer::{Answer, Spoken};
use crate::exchange::Exchange;
use crate::logprobs::Taken;
use crate::reply::ReplyError;
use crate::shape::Shape;

/// One finished answer.
pub(crate) struct Whole {
    text: String,
    reasoning: Option<String>,
    calls: Vec<CallMade>,
    finish: Option<FinishReason>,
    logprobs: Option<Taken>,
}

impl Whole {
    fn add(&mut self, answer: &Answer, part: Part) {
        match part {
            Part::Content(text) => self.text.push_str(&text),
            Part::Reasoning(text) => self.reasoning.get_or_insert_default().push_str(&text),
            Part::Call { index, name } => {
                let id = answer.call_id(index).to_owned();
                self.calls.push(CallMade::new(id, name));
            }
            Part::Arguments { index, text } => {
                if let Some(call) = self.calls.get_mut(index as usize) {
                    call.function.arguments.push_str(&text);
                }
            }
        }
    }
}

/// Reads all answers to their ends, side by side.
pub(crate) async fn wholes(exchange: &mut Exchange) -> Result<Vec<Whole>, ReplyError> {
    let echoes = &mut exchange.echoes;
    echoes.resize(exchange.answers.len(), String::new());
    let answers = exchange.answers.iter_mut().zip(echoes.drain(..));
    try_join_all(answers.map(|(answer, echo)| whole(answer, echo))).await
}

async fn whole(answer: &mut Answer, echo: String) -> Result<Whole, ReplyError> {
    let mut spoken = Spoken {
        text: echo,
        parts: Vec::new(),
    };
    let mut whole = Whole {
        text: String::new(),
        reasoning: None,
        calls: Vec::new(),
        finish: None,
        logprobs: None,
    };
    while let Some(piece) = poll_fn(|context| answer.poll_piece(context, &mut spoken)).await {
        whole.finish = piece?.finish;
        for part in spoken.parts.drain(..) {
            whole.add(answer, part);
        }
    }
    whole.text.insert_str(0, &spoken.text);
    whole.logprobs = answer.take_logprobs();
    Ok(whole)
}

/// The response document of an unstreamed request.
pub(crate) fn response(exchange: Exchange, wholes: Vec<Whole>) -> Response {
    let usage = exchange.total_usage();
    let nvext = exchange
        .answers
        .first()
        .and_then(|answer| answer.extensions(&exchange.extensions, &exchange.record));
    let model = exchange.model.name.as_str().to_owned();
    let Exchange {
        app,
        id,
        created,
        shape,
        record,
        answers,
        ..
    } = exchange;
    record.finish();
    match shape {
        Shape::Chat => Json(ChatCompletion {
            id,
            object: ObjectKind::ChatCompletion,
            created,
            model,
            choices: (0..)
                .zip(wholes)
                .map(|(index, whole)| chat_choice(index, whole))
                .collect(),
            usage,
            nvext,
        })
        .into_response(),
        Shape::Completions => Json(Completion {
            id,
            object: ObjectKind::Completion,
            created,
            model,
            choices: (0..)
                .zip(wholes)
                .map(|(index, whole)| text_choice(index, whole))
                .collect(),
            usage: Some(usage),
            nvext,
        })
        .into_response(),
        Shape::Responses(responded) => {
            let (message, finish) = only_one(wholes);
            let mut response =
                responses::Response::new(&id, created, &model, responded.echo.clone())
                    .answered(message, finish, &usage);
            response.nvext = nvext;
            let answer = responses::message_of(&response.output);
            responded.keep(&app.responses, &id, answer);
            Json(response).into_response()
        }
        Shape::Messages { omit_thinking, .. } => {
            let (message, finish) = only_one(wholes);
            let ending = Ending {
                finish,
                stop_sequence: answers.first().and_then(Answer::stopped_by),
            };
            let response = MessagesResponse::new(id, &model, message, ending, &usage);
            let response = match omit_thinking {
                true => response.omit_thinking(),
                false => response,
            };
            Json(response).into_response()
        }
    }
}

/// The answer of an API that has one.
fn only_one(wholes: Vec<Whole>) -> (ChatMessage, Option<FinishReason>) {
    let choice = wholes.into_iter().next().map(|whole| chat_choice(0, whole));
    match choice {
        Some(choice) => (choice.message, choice.finish_reason),
        None => (ChatMessage::assistant(String::new()), None),
    }
}

fn chat_choice(index: u32, whole: Whole) -> ChatChoice {
    ChatChoice {
        index,
        message: ChatMessage {
            // Nothing beside calls is nothing.
            content: Some(whole.text).filter(|text| whole.calls.is_empty() || !text.is_empty()),
            reasoning_content: whole.reasoning,
            tool_calls: whole.calls,
            ..ChatMessage::assistant(String::new())
        },
        logprobs: whole.logprobs.and_then(Taken::chat),
        finish_reason: whole.finish,
    }
}

fn text_choice(index: u32, whole: Whole) -> CompletionChoice {
    CompletionChoice {
        index,
        text: whole.text,
        logprobs: whole.logprobs.and_then(Taken::completion),
        finish_reason: whole.finish,
    }
}
