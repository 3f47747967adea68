//! An answer in one piece: waits for all of it, then sends one JSON document.

use std::future::poll_fn;

use axum::Json;
use axum::response::{IntoResponse, Response};
use futures_util::future::try_join_all;
use openai::{
    ChatChoice, ChatCompletion, ChatMessage, Completion, CompletionChoice, FinishReason, ObjectKind,
};

use crate::answer::Answer;
use crate::exchange::Exchange;
use crate::logprobs::Taken;
use crate::metrics::Endpoint;
use crate::reply::ReplyError;

/// One finished answer.
pub(crate) struct Whole {
    text: String,
    finish: Option<FinishReason>,
    logprobs: Option<Taken>,
}

/// Reads all answers to their ends, side by side.
pub(crate) async fn wholes(exchange: &mut Exchange) -> Result<Vec<Whole>, ReplyError> {
    let echoes = &mut exchange.echoes;
    echoes.resize(exchange.answers.len(), String::new());
    let answers = exchange.answers.iter_mut().zip(echoes.drain(..));
    try_join_all(answers.map(|(answer, echo)| whole(answer, echo))).await
}

async fn whole(answer: &mut Answer, echo: String) -> Result<Whole, ReplyError> {
    let (mut text, mut finish) = (echo, None);
    while let Some(piece) = poll_fn(|context| answer.poll_piece(context, &mut text)).await {
        finish = piece?.finish;
    }
    Ok(Whole {
        text,
        finish,
        logprobs: answer.take_logprobs(),
    })
}

/// The response document of an unstreamed request.
pub(crate) fn response(exchange: Exchange, wholes: Vec<Whole>) -> Response {
    let usage = exchange.total_usage();
    let nvext = exchange
        .answers
        .first()
        .and_then(|answer| answer.extensions(&exchange.extensions, &exchange.record));
    let model = exchange.app.model.as_str().to_owned();
    let Exchange {
        id,
        created,
        endpoint,
        record,
        ..
    } = exchange;
    record.finish();
    match endpoint {
        Endpoint::Chat => Json(ChatCompletion {
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
        Endpoint::Completions => Json(Completion {
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
    }
}

fn chat_choice(index: u32, whole: Whole) -> ChatChoice {
    ChatChoice {
        index,
        message: ChatMessage::assistant(whole.text),
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
