//! Answers played event by event at given milliseconds.

use super::*;

fn at(millis: u64) -> Moment {
    Moment::ZERO + Duration::from_millis(millis)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}"#;

fn content(text: &str) -> String {
    format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}]}}"#)
}

fn counted(text: &str, so_far: u32) -> String {
    let event = content(text);
    let usage =
        format!(r#""usage":{{"prompt_tokens":9,"completion_tokens":{so_far},"total_tokens":0}}"#);
    format!("{},{usage}}}", &event[..event.len() - 1])
}

fn usage(completion: u32) -> String {
    format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens":100,"completion_tokens":{completion},"total_tokens":0,"prompt_tokens_details":{{"cached_tokens":64}}}}}}"#
    )
}

/// Sent at 1000 ms.
fn read(events: &[(u64, &str)]) -> Result<Answer, Failure> {
    let mut reading = Reading::new(at(1000));
    for (millis, data) in events {
        reading.push(at(*millis), format!("data: {data}\n\n").as_bytes());
    }
    reading.finish(at(9999))
}

#[test]
fn single_tokens_are_timed_from_the_start_of_sending() {
    let mut events: Vec<(u64, String)> = (0..10).map(|n| (1300 + 30 * n, content("a "))).collect();
    events.push((1580, usage(10)));
    events.push((1590, "[DONE]".to_owned()));
    let events: Vec<(u64, &str)> = events.iter().map(|(at, data)| (*at, &**data)).collect();
    let answer = read(&events).unwrap();
    assert_eq!(answer.ttft, Some(ms(300)));
    assert_eq!(answer.tpot, Some(ms(30)));
    assert_eq!(answer.e2e, ms(570));
    assert_eq!(answer.gaps.len(), 9);
    assert!(answer.gaps.iter().all(|gap| gap.per_token() == ms(30)));
    assert_eq!(
        (answer.chunks, answer.text.as_str()),
        (10, "a a a a a a a a a a ")
    );
    assert_eq!(
        answer.usage.prompt_tokens_details.unwrap().cached_tokens,
        64
    );
}

#[test]
fn an_early_role_leaves_the_first_token_where_it_is() {
    let (one, usage) = (content("a"), usage(1));
    let events = [(1010, ROLE), (1300, &one), (1310, &usage), (1310, "[DONE]")];
    let answer = read(&events).unwrap();
    assert_eq!((answer.ttft, answer.tpot), (Some(ms(300)), None));
    assert_eq!(answer.chunks, 1);
}

#[test]
fn four_tokens_at_a_time_are_four_tokens() {
    let (four, usage) = (content("a b c d "), usage(12));
    let done = (1540, "[DONE]");
    let events = [
        (1300, &*four),
        (1420, &four),
        (1540, &four),
        (1540, &usage),
        done,
    ];
    let answer = read(&events).unwrap();
    assert_eq!((answer.ttft, answer.tpot), (Some(ms(300)), Some(ms(30))));
    let gap = Gap {
        length: ms(120),
        tokens: 4,
    };
    assert_eq!(answer.gaps, [gap, gap]);
    assert_eq!(gap.per_token(), ms(30));
}

#[test]
fn a_server_that_counts_along_is_believed() {
    let (three, one, six) = (counted("a", 3), counted("b", 4), counted("c", 10));
    let usage = usage(11);
    let done = (1640, "[DONE]");
    let events = [
        (1300, &*three),
        (1400, &one),
        (1650, &six),
        (1650, &usage),
        done,
    ];
    let answer = read(&events).unwrap();
    let tokens: Vec<u32> = answer.gaps.iter().map(|gap| gap.tokens).collect();
    assert_eq!(tokens, [1, 6]);
    assert_eq!(answer.tpot, Some(ms(350) / 8));
}

#[test]
fn reasoning_and_tool_calls_are_content_too() {
    for delta in [
        r#"{"reasoning_content":"hm"}"#,
        r#"{"reasoning":"hm"}"#,
        r#"{"tool_calls":[{"index":0}]}"#,
    ] {
        let event = format!(r#"{{"choices":[{{"delta":{delta}}}]}}"#);
        let usage = usage(1);
        let answer = read(&[(1200, &event), (1300, &usage), (1300, "[DONE]")]).unwrap();
        assert_eq!(answer.ttft, Some(ms(200)), "{delta}");
    }
}

#[test]
fn an_empty_answer_has_no_first_token() {
    let usage = usage(0);
    let answer = read(&[(1200, ROLE), (1300, &usage), (1400, "[DONE]")]).unwrap();
    assert_eq!((answer.ttft, answer.tpot), (None, None));
    assert!(answer.gaps.is_empty());
}

#[test]
fn extras_are_taken_where_they_come() {
    let event = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}],
        "nvext":{"worker_id":{"prefill_worker_id":1,"decode_worker_id":2},"timing":{"ttft_ms":5}}}"#
        .replace('\n', "");
    let usage = usage(1);
    let answer = read(&[(1200, &event), (1300, &usage), (1400, "[DONE]")]).unwrap();
    assert_eq!(answer.extras.worker.as_deref(), Some("2"));
    assert_eq!(answer.extras.timing.unwrap()["ttft_ms"], 5);
    assert_eq!(answer.finish, Some(FinishReason::Length));
}

#[track_caller]
fn check_failure(events: &[&str], kind: FailureKind, part: &str) {
    let events: Vec<(u64, &str)> = events.iter().map(|data| (1100, *data)).collect();
    let failure = read(&events).unwrap_err();
    assert_eq!(failure.kind, kind, "{failure}");
    assert!(failure.message.contains(part), "{failure}");
}

#[test]
fn bad_streams_fail_by_kind() {
    let (one, usage) = (content("a"), usage(1));
    let error = r#"{"error":{"message":"The worker broke off the answer.","type":"server_error"}}"#;
    check_failure(&[], FailureKind::BrokenStream, "after 0 events");
    check_failure(&[&one, &usage], FailureKind::BrokenStream, "after 1 events");
    check_failure(&[&one, "{oops"], FailureKind::BrokenStream, "{oops");
    check_failure(
        &[&one, "[DONE]"],
        FailureKind::NoUsage,
        "number of output tokens",
    );
    check_failure(
        &[&one, error, "[DONE]"],
        FailureKind::ServerError,
        "The worker broke off the answer.",
    );
    check_failure(&[r#"{"error":"full"}"#], FailureKind::ServerError, "full");
}

#[test]
fn what_is_told_on_the_way_adds_up_to_the_answer() {
    let mut reading = Reading::new(at(1000));
    let mut heard = ArrivalTotals::default();
    let mut told = Vec::new();
    for (millis, data) in [
        (1100, ROLE.to_owned()),
        (1300, counted("a", 2)),
        (1340, counted("b", 4)),
        (1400, counted("c", 5)),
    ] {
        reading.push(at(millis), format!("data: {data}\n\n").as_bytes());
        while let Some(arrival) = reading.next_arrival() {
            heard.add(&arrival);
            told.push((
                arrival.ttft,
                arrival.tokens,
                arrival.gap.map(Gap::per_token),
            ));
        }
    }
    let expected = [
        (Some(ms(300)), 2, None),
        (None, 2, Some(ms(20))),
        (None, 1, Some(ms(60))),
    ];
    assert_eq!(told, expected);
    let all = ArrivalTotals {
        ttft: Some(ms(300)),
        events: 3,
        tokens: 5,
        gaps: 2,
        prompt: true,
    };
    assert_eq!(heard, all);

    let mut uncounted = Reading::new(at(1000));
    let twice = format!("data: {0}\n\ndata: {0}\n\n", content("a"));
    uncounted.push(at(1200), twice.as_bytes());
    let arrivals = std::iter::from_fn(|| uncounted.next_arrival());
    let arrivals: Vec<_> = arrivals
        .map(|one| (one.tokens, one.gap, one.usage.is_some()))
        .collect();
    assert_eq!(arrivals, [(1, None, false), (1, None, false)]);
}

#[test]
fn a_routers_reason_is_kept_if_it_is_ours() {
    let event = |routing: &str| {
        let event = content("a");
        format!(
            "{},\"nvext\":{{\"routing\":{routing}}}}}",
            &event[..event.len() - 1]
        )
    };
    let ours = r#"{"mode":"kv","reason":"most cached","blocks":9,"queued_ms":0.5,"more":1,
        "predicted_ttft_ms":80.0,"candidates":[
        {"worker":2,"overlap_blocks":7,"in_flight":3,"cost":1.5,"ttft_ms":80.0},
        {"worker":0,"overlap_blocks":0,"in_flight":1,"cost":null}]}"#;
    let ours = ours.replace('\n', " ");
    for (routing, mode) in [
        (&*ours, Some("kv")),
        ("\"kv\"", None),
        ("{\"mode\":5}", None),
    ] {
        let (event, usage) = (event(routing), usage(1));
        let answer = read(&[(1200, &event), (1300, &usage), (1300, "[DONE]")]).unwrap();
        let found = answer.extras.routing;
        assert_eq!(found.as_ref().map(|routing| &*routing.mode), mode);
        if let Some(routing) = found {
            let costs: Vec<_> = routing.candidates.iter().map(|one| one.cost).collect();
            assert_eq!(costs, [Some(1.5), None]);
        }
    }
}
