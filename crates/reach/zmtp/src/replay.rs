//! Asks a publisher for messages that were missed, and answers such questions.
//!
//! ```text
//! DEALER asks     [][first number wanted, u64 BE]
//! ROUTER answers  [][topic?][number, u64 BE][payload] …, and at the end [][…][end][]
//! ```
//!
//! vLLM defined this protocol for its cache events; SGLang and our own workers have the same.
//! They differ in the end: vLLM's and SGLang's number is -1, ours is empty. Both are understood,
//! ours is sent. What a gap is, and what to do when it cannot be filled, is up to the caller.

use bytes::Bytes;
use tasks::Tasks;

use crate::Message;
use crate::answers::{Asker, serve_answers};
use crate::connection::{Bound, Error};

/// More than any publisher keeps. One that sends more is cut off, and the rest counts as lost.
const MOST: Bounds = Bounds {
    messages: 1 << 20,
    bytes: 256 << 20,
};
/// The number that ends a replay of vLLM: -1, read without its sign.
const END: u64 = u64::MAX;

/// A published message: its last two parts. What comes before them differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    pub number: u64,
    pub payload: Bytes,
}

impl Numbered {
    /// `None` if the message has no number.
    pub fn from_message(message: &Message) -> Option<Self> {
        let [.., number, payload] = &message[..] else {
            return None;
        };
        Some(Self {
            number: from_be(number)?,
            payload: payload.clone(),
        })
    }
}

/// Writes a number as messages have it.
pub fn to_be(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Reads a number; `None` if the part is not one.
pub fn from_be(part: &Bytes) -> Option<u64> {
    Some(u64::from_be_bytes(part[..].try_into().ok()?))
}

/// Asks the publisher at `endpoint` for the messages from number `first` on that it still has.
/// Reads no message larger than `limit` bytes.
pub async fn replay(endpoint: &str, first: u64, limit: usize) -> Result<Vec<Numbered>, Error> {
    let mut asker = Asker::connect(endpoint, limit).await?;
    asker.ask(&vec![Bytes::new(), to_be(first)]).await?;
    read(&mut asker, first, MOST).await
}

/// How much of a replay is read.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    messages: usize,
    bytes: usize,
}

async fn read(asker: &mut Asker, first: u64, most: Bounds) -> Result<Vec<Numbered>, Error> {
    let mut replayed = Vec::new();
    let mut bytes = 0;
    for _ in 0..most.messages {
        let Some(message) = Numbered::from_message(&asker.answer().await?) else {
            break;
        };
        bytes += message.payload.len();
        if message.number == END || bytes > most.bytes {
            break;
        }
        // Publishers may send older ones than they were asked for.
        if message.number >= first {
            replayed.push(message);
        }
    }
    Ok(replayed)
}

/// Answers such questions on `bound` until `tasks` stop. `kept` returns the messages from a
/// number on.
pub fn serve_replay(
    bound: Bound,
    kept: impl Fn(u64) -> Vec<Numbered> + Clone + Send + Sync + 'static,
    tasks: &Tasks,
) {
    let answers = move |question: &Message| {
        let Some(first) = question.last().and_then(from_be) else {
            return Vec::new();
        };
        let messages = kept(first).into_iter();
        let parts = messages.map(|message| (to_be(message.number), message.payload));
        let end = [(Bytes::new(), Bytes::new())];
        parts
            .chain(end)
            .map(|(number, payload)| vec![Bytes::new(), number, payload])
            .collect()
    };
    serve_answers(bound, answers, tasks);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64) -> Numbered {
        Numbered {
            number,
            payload: Bytes::from(vec![b'x'; number as usize]),
        }
    }

    async fn asked(bound: Bound, first: u64) -> Vec<u64> {
        let endpoint = format!("tcp://127.0.0.1:{}", bound.port());
        let tasks = Tasks::new();
        let kept = |first| (2..6).map(message).filter(|m| m.number >= first).collect();
        serve_replay(bound, kept, &tasks);
        let replayed = replay(&endpoint, first, 1 << 10).await.unwrap();
        tasks.finish().await;
        replayed.into_iter().map(|message| message.number).collect()
    }

    #[tokio::test]
    async fn what_is_still_kept_comes_again() {
        for (first, expected) in [(0, &[2, 3, 4, 5][..]), (4, &[4, 5]), (6, &[])] {
            let bound = Bound::bind("127.0.0.1", 0).await.unwrap();
            assert_eq!(asked(bound, first).await, expected, "from {first}");
        }
    }

    #[tokio::test]
    async fn a_publisher_that_sends_too_much_is_cut_off() {
        let unbounded = usize::MAX;
        for (messages, bytes, expected) in [
            (unbounded, unbounded, &[4, 5][..]),
            (unbounded, 10, &[4]),
            // Those before the first that was asked for are read too.
            (3, unbounded, &[4]),
        ] {
            let bound = Bound::bind("127.0.0.1", 0).await.unwrap();
            let endpoint = format!("tcp://127.0.0.1:{}", bound.port());
            let tasks = Tasks::new();
            let all = |_| (2..6).map(message).collect();
            serve_replay(bound, all, &tasks);
            let mut asker = Asker::connect(&endpoint, 1 << 10).await.unwrap();
            asker.ask(&vec![Bytes::new(), to_be(4)]).await.unwrap();
            let replayed = read(&mut asker, 4, Bounds { messages, bytes }).await;
            let numbers: Vec<u64> = replayed.unwrap().iter().map(|one| one.number).collect();
            assert_eq!(numbers, expected);
            tasks.finish().await;
        }
    }

    #[tokio::test]
    async fn a_replay_ends_in_both_ways() {
        for end in [to_be(u64::MAX), Bytes::new()] {
            let bound = Bound::bind("127.0.0.1", 0).await.unwrap();
            let endpoint = format!("tcp://127.0.0.1:{}", bound.port());
            let tasks = Tasks::new();
            let parts = [(to_be(3), "a"), (to_be(7), "b"), (end, ""), (to_be(9), "c")];
            let answers = parts.map(|(number, text)| vec![Bytes::new(), number, text.into()]);
            serve_answers(bound, move |_: &Message| answers.to_vec(), &tasks);
            // 3 is older than what was asked for, and 9 comes after the end.
            let replayed = replay(&endpoint, 5, 1 << 10).await.unwrap();
            let expected = Numbered {
                number: 7,
                payload: "b".into(),
            };
            assert_eq!(replayed, [expected]);
            tasks.finish().await;
        }
    }

    #[test]
    fn a_number_is_the_part_before_the_last() {
        let topic = Bytes::from("kv");
        let payload = Bytes::from("batch");
        let parts = vec![topic.clone(), to_be(7), payload.clone()];
        let number = 7;
        let expected = Some(Numbered { number, payload });
        assert_eq!(Numbered::from_message(&parts), expected);
        assert_eq!(Numbered::from_message(&vec![topic.clone(), topic]), None);
        assert_eq!(Numbered::from_message(&vec![to_be(1)]), None);
    }
}
