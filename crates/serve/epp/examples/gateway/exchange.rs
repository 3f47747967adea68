//! One request and its answer, as an Envoy with `FULL_DUPLEX_STREAMED` bodies shows them.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use epp::wire::body_mutation::Mutation;
use epp::wire::external_processor_client::ExternalProcessorClient;
use epp::wire::processing_request::Request;
use epp::wire::processing_response::Response;
use epp::wire::{
    BodyResponse, BodySendMode, Field, Fields, HttpBody, HttpHeaders, ProcessingRequest,
    ProtocolConfiguration,
};
use futures_util::StreamExt as _;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// A short answer, with what it used.
const ANSWER: &[u8] = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes\"}}]}\n\n\
    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
    data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":1}}\n\n\
    data: [DONE]\n\n";

pub(crate) type Client = ExternalProcessorClient<Channel>;

/// Why a request was not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the stream failed: {0}")]
    Stream(#[from] Status),
    #[error("the picker hung up")]
    Gone,
    #[error("the request was refused: {0}")]
    Refused(String),
    #[error("the picker named no endpoint")]
    NoEndpoint,
    #[error("the body came back changed")]
    Changed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// From the last part of the body to the endpoint and all of the body again.
    pub(crate) added: Duration,
    /// The same from when the request was due.
    pub(crate) whole: Duration,
    /// When the endpoint and all of the body were there.
    pub(crate) done: Instant,
}

/// Shows a request with this body, in parts of so many bytes, and an answer.
pub(crate) async fn exchange(
    mut client: Client,
    body: Bytes,
    part: usize,
) -> Result<Times, Failure> {
    let began = Instant::now();
    let parts = body.len().div_ceil(part);
    let (sender, receiver) = mpsc::channel(parts + 4);
    send(&sender, opening(body.len())).await?;
    for number in 0..parts {
        let (from, to) = (number * part, body.len().min((number + 1) * part));
        let part = HttpBody {
            body: body.slice(from..to),
            end_of_stream: to == body.len(),
        };
        send(&sender, plain(Request::RequestBody(part))).await?;
    }
    let sent = Arc::new(OnceLock::new());
    let noted = Arc::clone(&sent);
    // When the connection takes the last part, which is when there is room for it.
    let messages = ReceiverStream::new(receiver).inspect(move |message| {
        if let Some(Request::RequestBody(part)) = &message.request
            && part.end_of_stream
        {
            let _ = noted.set(Instant::now());
        }
    });
    let mut replies = client.process(messages).await?.into_inner();
    let first = next(&mut replies).await?;
    if let Response::ImmediateResponse(refused) = &first {
        return Err(Failure::Refused(refused.details.clone()));
    }
    if !matches!(first, Response::RequestHeaders(_)) {
        return Err(Failure::NoEndpoint);
    }
    returned(&mut replies, &body).await?;
    let done = Instant::now();
    answer(&sender, &mut replies).await?;
    drop(sender);
    let sent = sent.get().copied().unwrap_or(began);
    Ok(Times {
        added: done - sent,
        whole: done - began,
        done,
    })
}

/// Reads the body until its end, and compares it.
async fn returned(replies: &mut Streaming<Reply>, body: &Bytes) -> Result<(), Failure> {
    let mut rest = &body[..];
    loop {
        let Response::RequestBody(reply) = next(replies).await? else {
            return Err(Failure::Changed);
        };
        let (part, ends) = streamed(reply).ok_or(Failure::Changed)?;
        rest = rest.strip_prefix(&part[..]).ok_or(Failure::Changed)?;
        match (ends, rest.is_empty()) {
            (true, true) => return Ok(()),
            (false, false) => {}
            (true, false) | (false, true) => return Err(Failure::Changed),
        }
    }
}

fn streamed(reply: BodyResponse) -> Option<(Bytes, bool)> {
    match reply.response?.body_mutation?.mutation? {
        Mutation::StreamedResponse(part) => Some((part.body, part.end_of_stream)),
        Mutation::Body(_) | Mutation::ClearBody(_) => None,
    }
}

/// Shows the answer, so that the place is given back.
async fn answer(sender: &Sender, replies: &mut Streaming<Reply>) -> Result<(), Failure> {
    let fields = [(":status", "200"), ("content-type", "text/event-stream")];
    send(sender, plain(Request::ResponseHeaders(headers(&fields)))).await?;
    next(replies).await?;
    let whole = HttpBody {
        body: Bytes::from_static(ANSWER),
        end_of_stream: true,
    };
    send(sender, plain(Request::ResponseBody(whole))).await?;
    next(replies).await?;
    Ok(())
}

type Sender = mpsc::Sender<ProcessingRequest>;
type Reply = epp::wire::ProcessingResponse;

async fn send(sender: &Sender, message: ProcessingRequest) -> Result<(), Failure> {
    sender.send(message).await.map_err(|_| Failure::Gone)
}

async fn next(replies: &mut Streaming<Reply>) -> Result<Response, Failure> {
    let reply = replies.message().await?.ok_or(Failure::Gone)?;
    reply.response.ok_or(Failure::Gone)
}

fn plain(request: Request) -> ProcessingRequest {
    ProcessingRequest {
        request: Some(request),
        ..ProcessingRequest::default()
    }
}

fn opening(bytes: usize) -> ProcessingRequest {
    let length = bytes.to_string();
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", "/v1/chat/completions"),
        ("content-type", "application/json"),
        ("content-length", &length),
    ];
    let duplex = BodySendMode::FullDuplexStreamed.into();
    ProcessingRequest {
        request: Some(Request::RequestHeaders(headers(&fields))),
        protocol_config: Some(ProtocolConfiguration {
            request_body_mode: duplex,
            response_body_mode: duplex,
        }),
        ..ProcessingRequest::default()
    }
}

fn headers(fields: &[(&str, &str)]) -> HttpHeaders {
    let field = |(key, value): &(&str, &str)| Field {
        key: (*key).to_owned(),
        value: String::new(),
        raw_value: Bytes::copy_from_slice(value.as_bytes()),
    };
    HttpHeaders {
        headers: Some(Fields {
            headers: fields.iter().map(field).collect(),
        }),
        end_of_stream: false,
    }
}
