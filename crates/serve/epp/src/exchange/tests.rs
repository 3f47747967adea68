//! What Envoy may send, in every order that it may, and what it gets.

use http::{HeaderMap, Method};

use super::*;
use crate::wire::processing_response::Response;
use crate::wire::{CommonResponse, MOST_CHUNK, body_mutation};

const DUPLEX: Option<Modes> = Some(Modes {
    request: true,
    answer: true,
});
const PLAIN: Option<Modes> = Some(Modes {
    request: false,
    answer: false,
});

fn headers(ends: bool, modes: Option<Modes>) -> Event {
    let call = Call {
        method: Method::POST,
        path: "/v1/chat/completions".to_owned(),
        headers: HeaderMap::new(),
        subset: None,
    };
    Event::Headers {
        call: Box::new(call),
        ends,
        modes,
    }
}

fn part(bytes: usize, ends: bool) -> Part {
    Part {
        bytes: vec![b'x'; bytes].into(),
        ends,
    }
}

fn body(bytes: usize, ends: bool) -> Event {
    Event::Body(part(bytes, ends))
}

fn answer(ends: bool) -> Event {
    Event::AnswerHeaders {
        status: StatusCode::OK,
        served: None,
        ends,
    }
}

fn answer_body(bytes: usize, ends: bool) -> Event {
    Event::AnswerBody(part(bytes, ends))
}

fn end(ends: bool) -> &'static str {
    if ends { "!" } else { "" }
}

fn common(response: Option<CommonResponse>) -> String {
    let mutation = response.unwrap_or_default().body_mutation;
    match mutation.and_then(|mutation| mutation.mutation) {
        None => "same".to_owned(),
        Some(body_mutation::Mutation::StreamedResponse(part)) => {
            format!("{}{}", part.body.len(), end(part.end_of_stream))
        }
        Some(body_mutation::Mutation::Body(_) | body_mutation::Mutation::ClearBody(_)) => {
            "replaced".to_owned()
        }
    }
}

fn reply(reply: ProcessingResponse) -> String {
    match reply.response.unwrap() {
        Response::RequestHeaders(_) => "->endpoint".to_owned(),
        Response::ResponseHeaders(_) => "->headers".to_owned(),
        Response::RequestBody(body) => format!("->body:{}", common(body.response)),
        Response::ResponseBody(body) => format!("->answer:{}", common(body.response)),
        Response::RequestTrailers(_) => "->trailers".to_owned(),
        Response::ResponseTrailers(_) => "->answer-trailers".to_owned(),
        Response::ImmediateResponse(answer) => format!("->{}", answer.status.unwrap().code),
    }
}

/// Goes through all events, picks where it is ordered, and writes down what happens.
fn run(events: Vec<Event>) -> Result<String, OutOfOrder> {
    let mut exchange = Exchange::default();
    let (mut log, mut gathered) = (Vec::new(), Vec::new());
    for event in events {
        for order in exchange.step(event)? {
            match order {
                Order::Open(_) => log.push("open".to_owned()),
                Order::Gather(bytes) => gathered.extend_from_slice(&bytes),
                Order::Pick => {
                    log.push(format!("pick:{}", gathered.len()));
                    let body = Bytes::from(std::mem::take(&mut gathered));
                    let endpoints = ["10.0.0.1:8000".parse().unwrap()];
                    log.extend(
                        exchange
                            .picked(&endpoints, &body, None)
                            .into_iter()
                            .map(reply),
                    );
                }
                Order::Send(sent) => log.push(reply(sent)),
                Order::Begins { status, .. } => log.push(format!("begins:{}", status.as_u16())),
                Order::Read(bytes) => log.push(format!("read:{}", bytes.len())),
                Order::Completes => log.push("completes".to_owned()),
            }
        }
    }
    Ok(log.join(" "))
}

#[track_caller]
fn check(events: Vec<Event>, expected: &str) {
    assert_eq!(run(events).unwrap(), expected);
}

#[test]
fn a_body_in_parts_is_answered_when_it_is_whole() {
    check(vec![headers(false, DUPLEX), body(10, false)], "open");
    let whole = "open pick:15 ->endpoint ->body:15!";
    check(
        vec![headers(false, DUPLEX), body(10, false), body(5, true)],
        whole,
    );
    // An Envoy that does not say its modes.
    check(
        vec![headers(false, None), body(10, false), body(5, true)],
        whole,
    );
}

#[test]
fn parts_of_no_bytes_are_parts() {
    let empty = "open pick:0 ->endpoint ->body:0!";
    check(vec![headers(false, DUPLEX), body(0, true)], empty);
    check(
        vec![headers(false, DUPLEX), body(0, false), body(0, true)],
        empty,
    );
    check(
        vec![
            headers(false, DUPLEX),
            body(0, false),
            body(3, false),
            body(0, true),
        ],
        "open pick:3 ->endpoint ->body:3!",
    );
}

#[test]
fn a_request_may_end_with_its_headers_or_with_trailers() {
    check(vec![headers(true, DUPLEX)], "open pick:0 ->endpoint");
    check(
        vec![headers(false, DUPLEX), body(4, false), Event::Trailers],
        "open pick:4 ->endpoint ->body:4 ->trailers",
    );
    check(
        vec![headers(false, DUPLEX), Event::Trailers],
        "open pick:0 ->endpoint ->trailers",
    );
}

#[test]
fn long_bodies_go_back_in_parts_that_envoy_takes() {
    let most = MOST_CHUNK;
    check(
        vec![headers(false, DUPLEX), body(2 * most + 1, true)],
        &format!(
            "open pick:{} ->endpoint ->body:{most} ->body:{most} ->body:1!",
            2 * most + 1
        ),
    );
    check(
        vec![headers(false, DUPLEX), body(most, true)],
        &format!("open pick:{most} ->endpoint ->body:{most}!"),
    );
    check(
        vec![
            headers(true, DUPLEX),
            answer(false),
            answer_body(most + 1, false),
        ],
        &format!(
            "open pick:0 ->endpoint begins:200 ->headers ->answer:{most} ->answer:1 read:{}",
            most + 1
        ),
    );
}

#[test]
fn an_answer_passes_at_once_and_is_read_afterwards() {
    let start = "open pick:0 ->endpoint begins:200 ->headers";
    check(
        vec![
            headers(true, DUPLEX),
            answer(false),
            answer_body(5, false),
            answer_body(0, false),
            answer_body(7, true),
        ],
        &format!("{start} ->answer:5 read:5 ->answer:7! read:7 completes"),
    );
    check(
        vec![headers(true, DUPLEX), answer(true)],
        &format!("{start} completes"),
    );
    check(
        vec![
            headers(true, DUPLEX),
            answer(false),
            answer_body(5, false),
            Event::AnswerTrailers,
        ],
        &format!("{start} ->answer:5 read:5 ->answer-trailers completes"),
    );
    check(
        vec![headers(true, DUPLEX), answer(false), answer_body(0, true)],
        &format!("{start} ->answer:0! completes"),
    );
}

#[test]
fn nothing_matters_after_the_end() {
    check(
        vec![
            headers(true, DUPLEX),
            answer(true),
            answer_body(1, true),
            Event::Trailers,
        ],
        "open pick:0 ->endpoint begins:200 ->headers completes",
    );
}

#[test]
fn an_envoy_that_keeps_bodies_gets_its_endpoint_at_once() {
    check(
        vec![
            headers(false, PLAIN),
            body(10, true),
            answer(false),
            answer_body(5, true),
        ],
        "open pick:0 ->endpoint ->body:same begins:200 ->headers ->answer:same read:5 completes",
    );
    check(
        vec![headers(false, PLAIN), Event::Trailers],
        "open pick:0 ->endpoint ->trailers",
    );
}

#[test]
fn another_filter_may_answer_before_a_pick() {
    check(
        vec![
            headers(false, DUPLEX),
            body(3, false),
            answer(false),
            answer_body(2, true),
        ],
        "open begins:200 ->headers ->answer:2! read:2 completes",
    );
}

#[test]
fn a_refusal_is_an_answer() {
    let mut exchange = Exchange::default();
    exchange.step(headers(false, DUPLEX)).unwrap();
    let refused = Refused {
        status: StatusCode::TOO_MANY_REQUESTS,
        code: Some("workers_full"),
        retry_after_seconds: Some(3),
        body: b"{}".to_vec(),
    };
    assert_eq!(reply(exchange.refused(refused)), "->429");
    assert!(exchange.step(body(1, true)).unwrap().is_empty());
}

#[test]
fn what_cannot_come_is_an_error() {
    for events in [
        vec![body(1, true)],
        vec![Event::Trailers],
        vec![answer(false)],
        vec![headers(false, DUPLEX), headers(false, DUPLEX)],
        vec![headers(true, DUPLEX), body(1, true)],
        vec![headers(true, DUPLEX), answer_body(1, true)],
        vec![headers(true, DUPLEX), answer(false), answer(false)],
    ] {
        let shown = format!("{events:?}");
        assert!(run(events).is_err(), "{shown}");
    }
}
