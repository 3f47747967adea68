//! What stays, what leaves, and what is shown.

use std::time::Duration;

use super::*;
use crate::record::TurnType;

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Duration::from_secs(seconds)
}

fn opening(number: u64) -> Opening {
    Opening {
        id: format!("c-{number}").into(),
        number,
        title: "Tides".into(),
        turns_planned: 3,
        at: at(number),
    }
}

fn record(conversation: u64, turn: u32) -> RequestRecord {
    RequestRecord {
        conversation_id: format!("c-{conversation}"),
        conversation,
        turn,
        turns: 3,
        turn_type: TurnType::of(turn),
        attempt: 0,
        due_s: 0.0,
        sent_s: 0.0,
        ended_s: 0.0,
        dispatch_lag_ms: 0.0,
        ttft_ms: Some(300.0),
        tpot_ms: None,
        itl_p50_ms: None,
        longest_gap_ms: None,
        e2e_ms: None,
        prompt_tokens: None,
        cached_tokens: None,
        output_tokens: None,
        chunks: None,
        finish_reason: None,
        worker: None,
        server_timing: None,
        routing: None,
        error: None,
    }
}

#[test]
fn a_conversation_is_told_turn_by_turn() {
    let mut log = Log::new(500, 1_000_000);
    log.begin(opening(2));
    log.ask(2, 0, &"What?".into());
    log.request(record(2, 0), None);
    log.ask(2, 0, &"What?".into());
    log.request(record(2, 0), Some("This.".into()));
    log.ask(2, 1, &"Why?".into());
    let shown = log.find("c-2", at(9)).unwrap();
    assert_eq!(shown.summary.started_ms, 1_002_000);
    assert_eq!(
        (shown.summary.turns_answered, shown.summary.duration_s),
        (1, 7.0)
    );
    assert_eq!((shown.turns.len(), shown.turns[0].failed.len()), (2, 1));
    assert_eq!(shown.turns[0].assistant.as_deref(), Some("This."));
    assert_eq!(
        (&*shown.turns[1].user, &shown.turns[1].assistant),
        ("Why?", &None)
    );
    log.end(2, ConversationStatus::Completed, at(10));
    assert_eq!(log.list(at(99))[0].duration_s, 8.0);
    let json = serde_json::to_value(log.find("c-2", at(99)).unwrap()).unwrap();
    assert_eq!(
        (&json["status"], &json["title"]),
        (&"completed".into(), &"Tides".into())
    );
    assert_eq!(json["turns"][0]["answered"]["ttft_ms"], 300.0);
}

#[test]
fn the_oldest_that_is_over_leaves_first() {
    let mut log = Log::new(3, 0);
    for number in 0..3 {
        log.begin(opening(number));
    }
    log.end(1, ConversationStatus::Stopped, at(5));
    log.begin(opening(3));
    let numbers = |log: &Log| {
        log.list(at(9))
            .iter()
            .map(|one| one.number)
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(&log), [3, 2, 0]);
    log.begin(opening(4));
    assert_eq!(numbers(&log), [4, 3, 2]);
    log.request(record(0, 0), Some("too late".into()));
    assert_eq!(log.find("c-0", at(9)), None);
}
