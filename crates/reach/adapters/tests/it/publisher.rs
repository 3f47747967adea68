//! A stand-in's event sockets: PUB, and ROUTER for those who missed something.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use adapters::EngineKind;
use bytes::Bytes;
use parking_lot::Mutex;
use rmpv::Value;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;
use zeromq::{PubSocket, RouterSocket, Socket as _, SocketRecv as _, SocketSend as _, ZmqMessage};

use crate::cache::Told;

/// What happens to batches on their way.
#[derive(Debug, Default)]
pub(crate) struct Mishaps {
    /// Numbers that are kept for replay but never published.
    pub(crate) unpublished: BTreeSet<u64>,
    /// How many batches are kept for replay.
    pub(crate) kept: usize,
}

#[derive(Debug)]
pub(crate) struct Publisher {
    pub(crate) events: String,
    pub(crate) replay: String,
    pub(crate) mishaps: Arc<Mutex<Mishaps>>,
    batches: mpsc::Sender<(u64, Bytes)>,
    /// Number of the next batch.
    pub(crate) next: u64,
    life: u64,
    kept: Kept,
    kind: EngineKind,
    block_size: usize,
}

type Kept = Arc<Mutex<VecDeque<(u64, Bytes)>>>;

impl Publisher {
    pub(crate) async fn bind(kind: EngineKind, block_size: usize, tasks: &TaskTracker) -> Self {
        let mut events = PubSocket::new();
        let address = events.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
        let mut replay = RouterSocket::new();
        let replay_address = replay.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
        let (batches, receiver) = mpsc::channel(1000);
        let kept = Kept::default();
        let mishaps = Arc::new(Mutex::new(Mishaps {
            kept: 10_000,
            ..Mishaps::default()
        }));
        tasks.spawn(publish(
            events,
            receiver,
            Arc::clone(&kept),
            Arc::clone(&mishaps),
        ));
        tasks.spawn(answer(replay, Arc::clone(&kept), kind));
        Self {
            events: address,
            replay: replay_address,
            mishaps,
            batches,
            next: 0,
            life: 0,
            kept,
            kind,
            block_size,
        }
    }

    /// Counts from 0 again, with nothing kept.
    pub(crate) fn begin_anew(&mut self) {
        self.kept.lock().clear();
        self.life += 1;
        self.next = 0;
    }

    pub(crate) fn tell(&mut self, told: &[Told]) {
        if told.is_empty() {
            return;
        }
        let events = told.iter().map(|told| self.event(told)).collect();
        let time = 1_700_000_000.0 + (self.life * 1000 + self.next) as f64;
        let batch = Value::Array(vec![Value::F64(time), Value::Array(events), Value::from(0)]);
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &batch).unwrap();
        self.batches.try_send((self.next, bytes.into())).unwrap();
        self.next += 1;
    }

    fn event(&self, told: &Told) -> Value {
        let list =
            |numbers: &[u64]| Value::Array(numbers.iter().copied().map(Value::from).collect());
        let (tag, fields) = match told {
            Told::Stored {
                parent,
                hashes,
                tokens,
                salt,
            } => {
                let tokens: Vec<u64> = tokens.iter().copied().map(u64::from).collect();
                let mut fields = vec![
                    ("block_hashes", list(hashes)),
                    ("parent_block_hash", parent.map_or(Value::Nil, Value::from)),
                    ("token_ids", list(&tokens)),
                    ("block_size", Value::from(self.block_size)),
                    ("lora_id", Value::Nil),
                    ("medium", Value::from("GPU")),
                ];
                fields.extend(self.salt(salt.as_deref(), hashes.len()));
                ("BlockStored", fields)
            }
            Told::Removed(hashes) => {
                let fields = vec![
                    ("block_hashes", list(hashes)),
                    ("medium", Value::from("GPU")),
                ];
                ("BlockRemoved", fields)
            }
            Told::Cleared => ("AllBlocksCleared", vec![]),
        };
        if self.kind == EngineKind::Sglang {
            let values = fields.into_iter().map(|(_, value)| value);
            return Value::Array(std::iter::once(Value::from(tag)).chain(values).collect());
        }
        let fields = fields
            .into_iter()
            .map(|(name, value)| (Value::from(name), value));
        let tag = (Value::from("type"), Value::from(tag));
        Value::Map(std::iter::once(tag).chain(fields).collect())
    }

    fn salt(&self, salt: Option<&str>, blocks: usize) -> Vec<(&'static str, Value)> {
        if self.kind == EngineKind::Sglang {
            let metadata = salt.map(|salt| vec![(Value::from("cache_salt"), Value::from(salt))]);
            return metadata
                .map(|entries| ("metadata", Value::Map(entries)))
                .into_iter()
                .collect();
        }
        let first = salt.map_or(Value::Nil, |salt| Value::Array(vec![Value::from(salt)]));
        let mut keys = vec![Value::Nil; blocks];
        keys[0] = first;
        vec![
            ("lora_name", Value::Nil),
            ("extra_keys", Value::Array(keys)),
        ]
    }
}

async fn publish(
    mut socket: PubSocket,
    mut batches: mpsc::Receiver<(u64, Bytes)>,
    kept: Kept,
    mishaps: Arc<Mutex<Mishaps>>,
) {
    while let Some((number, payload)) = batches.recv().await {
        let lost = {
            let mishaps = mishaps.lock();
            let mut kept = kept.lock();
            kept.push_back((number, payload.clone()));
            while kept.len() > mishaps.kept {
                kept.pop_front();
            }
            mishaps.unpublished.contains(&number)
        };
        if !lost {
            let parts = vec![Bytes::new(), be(number), payload];
            let _ = socket.send(ZmqMessage::try_from(parts).unwrap()).await;
        }
    }
}

/// vLLM repeats the topic in a replay, SGLang does not.
async fn answer(mut socket: RouterSocket, kept: Kept, kind: EngineKind) {
    while let Ok(question) = socket.recv().await {
        let question = question.into_vec();
        let [asker, _, from] = &question[..] else {
            continue;
        };
        let from = u64::from_be_bytes(from[..].try_into().unwrap());
        let mut batches: Vec<(u64, Bytes)> = kept.lock().iter().cloned().collect();
        batches.retain(|(number, _)| *number >= from);
        batches.push((u64::MAX, Bytes::new()));
        for (number, payload) in batches {
            let mut parts = vec![asker.clone(), Bytes::new()];
            if kind == EngineKind::Vllm {
                parts.push(Bytes::new());
            }
            parts.extend([be(number), payload]);
            let _ = socket.send(ZmqMessage::try_from(parts).unwrap()).await;
        }
    }
}

fn be(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}
