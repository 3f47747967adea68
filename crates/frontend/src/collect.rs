//! An answer in one piece: waits for all of it, then sends one JSON document.

use std::future::poll_fn;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use openai::{
    ChatChoice, ChatCompletion, ChatLogprobs, ChatMessage, Completion, CompletionChoice,
    CompletionLogprobs, FinishReason, ObjectKind,
};
use tracing::warn;

use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::logprobs;
use crate::metrics::Endpoint;
use crate::stream::total_usage;

/// One finished answer.
#[derive(Default)]
struct Whole {
    text: String,
    finish: Option<FinishReason>,
    chat_logprobs: Option<ChatLogprobs>,
    completion_logprobs: Option<CompletionLogprobs>,
}

pub(crate) async fn response(mut exchange: Exchange) -> Result<Response, ApiError> {
    let mut wholes = Vec::with_capacity(exchange.answers.len());
    for at in 0..exchange.answers.len() {
        match whole(&mut exchange, at).await {
            Ok(whole) => wholes.push(whole),
            Err(error) => {
                exchange.record.fail(error.error_type());
                return Err(error);
            }
        }
    }
    let usage = total_usage(&exchange);
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
    Ok(match endpoint {
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
    })
}

async fn whole(exchange: &mut Exchange, at: usize) -> Result<Whole, ApiError> {
    let mut whole = Whole {
        text: exchange.echoes.get(at).cloned().unwrap_or_default(),
        ..Whole::default()
    };
    let answer = &mut exchange.answers[at];
    while let Some(piece) = poll_fn(|context| answer.poll_piece(context, &mut whole.text)).await {
        let piece = piece.map_err(|error| {
            warn!(id = exchange.id, %error, "answer broke off");
            ApiError::new(StatusCode::BAD_GATEWAY, "The worker broke off.")
                .code("stream_interrupted")
        })?;
        exchange.record.tokens(piece.chunk.tokens.len());
        whole.finish = piece.finish;
        if !piece.chunk.logprobs.is_empty() {
            let preprocessor = &exchange.app.preprocessor;
            let chat = whole.chat_logprobs.get_or_insert_default();
            chat.content
                .extend(logprobs::chat(preprocessor, &piece.chunk).content);
            let completion = whole.completion_logprobs.get_or_insert_default();
            logprobs::append(completion, logprobs::completion(preprocessor, &piece.chunk));
        }
    }
    Ok(whole)
}

fn chat_choice(index: u32, whole: Whole) -> ChatChoice {
    ChatChoice {
        index,
        message: ChatMessage::assistant(whole.text),
        logprobs: whole.chat_logprobs,
        finish_reason: whole.finish,
    }
}

fn text_choice(index: u32, whole: Whole) -> CompletionChoice {
    CompletionChoice {
        index,
        text: whole.text,
        logprobs: whole.completion_logprobs,
        finish_reason: whole.finish,
    }
}
