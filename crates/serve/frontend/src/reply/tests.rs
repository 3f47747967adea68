//! The buffer by itself, with the test as its driver.

use contract::FinishReason;
use tokio::sync::oneshot;

use super::*;

const LAG: Duration = Duration::from_secs(30);

/// A reply whose driver is the test: the sender comes out of it.
async fn pair() -> (Reply, ReplySender) {
    let (give, take) = oneshot::channel();
    let reply = Reply::driven(&TaskTracker::new(), 7, LAG, |sender| async move {
        give.send(sender).unwrap();
        std::future::pending::<()>().await;
    });
    (reply, take.await.unwrap())
}

fn chunk(token: u32, finish: Option<FinishReason>) -> TokenChunk {
    TokenChunk {
        tokens: [token].into_iter().collect(),
        finish,
        ..TokenChunk::default()
    }
}

async fn next(reply: &mut Reply) -> Option<Result<TokenChunk, ReplyError>> {
    poll_fn(|context| reply.poll_chunk(context)).await
}

#[tokio::test(start_paused = true)]
async fn chunks_stay_apart_while_the_client_keeps_up() {
    let (mut reply, sender) = pair().await;
    sender.put(chunk(1, None), TokenTimes::default()).unwrap();
    sender.put(chunk(2, None), TokenTimes::default()).unwrap();
    let last = chunk(3, Some(FinishReason::Stop));
    sender.put(last, TokenTimes::default()).unwrap();
    for token in 1..=3 {
        let taken = next(&mut reply).await.unwrap().unwrap();
        assert_eq!(taken.tokens[..], [token]);
    }
    assert!(next(&mut reply).await.is_none());
    assert_eq!(reply.output_tokens, 3);
    sender.read_to_the_end().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_nobody_reads_is_joined_and_nothing_of_it_is_lost() {
    let (mut reply, sender) = pair().await;
    let tokens = 10_000;
    for token in 0..tokens {
        let finish = (token + 1 == tokens).then_some(FinishReason::Length);
        sender
            .put(chunk(token, finish), TokenTimes::default())
            .unwrap();
    }
    assert!(reply.shared.lock().unread.len() <= APART);
    let mut read = Vec::new();
    let mut finish = None;
    while let Some(taken) = next(&mut reply).await {
        let taken = taken.unwrap();
        read.extend(taken.tokens);
        finish = taken.finish;
    }
    assert_eq!(read, Vec::from_iter(0..tokens));
    assert_eq!(finish, Some(FinishReason::Length));
}

#[tokio::test(start_paused = true)]
async fn a_client_too_far_behind_is_given_up_while_the_worker_sends() {
    let (mut reply, sender) = pair().await;
    sender.put(chunk(1, None), TokenTimes::default()).unwrap();
    tokio::time::sleep(LAG).await;
    sender.put(chunk(2, None), TokenTimes::default()).unwrap();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let error = sender
        .put(chunk(3, None), TokenTimes::default())
        .unwrap_err();
    assert!(matches!(error, ReplyError::NotRead(LAG)));
    sender.fail(error);
    assert!(reply.shared.lock().unread.is_empty(), "its memory is free");
    let told = next(&mut reply).await.unwrap();
    assert!(matches!(told, Err(ReplyError::NotRead(_))));
    assert!(next(&mut reply).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_but_keeps_within_its_lag_is_not() {
    let (mut reply, sender) = pair().await;
    for second in 0..100 {
        let finish = (second == 99).then_some(FinishReason::Stop);
        sender
            .put(chunk(second, finish), TokenTimes::default())
            .unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        if second >= 20 {
            next(&mut reply).await.unwrap().unwrap();
        }
    }
    let reading = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            next(&mut reply).await.unwrap().unwrap();
        }
    };
    // The rest is read within the lag of each chunk only if the client hurries.
    let (read, ()) = tokio::join!(sender.read_to_the_end(), reading);
    assert!(matches!(read, Err(ReplyError::NotRead(_))));
}

#[tokio::test(start_paused = true)]
async fn after_the_last_chunk_the_client_has_its_lag_to_read_it() {
    let (mut reply, sender) = pair().await;
    let last = chunk(1, Some(FinishReason::Stop));
    sender.put(last, TokenTimes::default()).unwrap();
    let reading = async {
        tokio::time::sleep(LAG - Duration::from_millis(1)).await;
        next(&mut reply).await.unwrap().unwrap();
    };
    let (read, ()) = tokio::join!(sender.read_to_the_end(), reading);
    read.unwrap();
    let (_reply, sender) = pair().await;
    sender.put(chunk(1, None), TokenTimes::default()).unwrap();
    assert!(sender.read_to_the_end().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_reply_ends_its_driver() {
    let (reply, sender) = pair().await;
    let (gone, dropped) = oneshot::channel::<()>();
    let other = Reply::driven(&TaskTracker::new(), 1, LAG, |_| async move {
        let _held = gone;
        std::future::pending::<()>().await;
    });
    drop(other);
    assert!(dropped.await.is_err(), "what the driver held is dropped");
    drop((reply, sender));
}
