//! Our index and the published crate's, behind one face.
//!
//! Each is given what its own interface takes, prepared before the clock starts: ours the
//! chained hashes of a prompt, theirs the blocks' own hashes. All are asked on the calling
//! thread, without the channels that a server would put in front of them.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::thread::JoinHandle;

use contract::KvEvent;
use dynamo_kv_router::indexer::{SyncIndexer, WorkerTask};
use dynamo_kv_router::nested_map::{LevelIndex, SearchMode};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, OverlapScores, RouterEvent, WorkerWithDpRank,
};
use dynamo_kv_router::{ConcurrentRadixTreeCompressed, PositionalIndexer, RadixTree};
use rustc_hash::FxHashMap;

use crate::indexed::Indexed;
use crate::scene::{Prompt, Scene};

/// Leading blocks held, by worker; workers that hold none are left out.
pub(crate) type Matches = BTreeMap<usize, u32>;

/// Events and prompts as one contender takes them, to be used up.
pub(crate) type Ready = Box<dyn FnOnce(&mut dyn Contender)>;

pub(crate) trait Contender {
    /// Work that applies the scene's events when called.
    fn prepare_events(&self, scene: &Scene) -> Ready;

    /// Work that looks those prompts up, one after the other, when called.
    fn prepare_lookups(&self, prompts: &[&Prompt]) -> Ready;

    fn matches(&mut self, prompt: &Prompt) -> Matches;

    fn as_any(&mut self) -> &mut dyn std::any::Any;
}

pub(crate) const NAMES: [&str; 4] = ["ours", "radix-tree", "concurrent-tree", "positional"];

pub(crate) fn contender(name: &str, workers: usize) -> Box<dyn Contender> {
    match name {
        "ours" => Box::new(Indexed::empty(workers)),
        "radix-tree" => Box::new(RadixTree::new()),
        "concurrent-tree" => Box::new(Concurrent::new()),
        "positional" => Box::new(Positional::new()),
        unknown => panic!("no contender is called {unknown}"),
    }
}

fn work<T: Contender + 'static>(work: impl FnOnce(&mut T) + 'static) -> Ready {
    Box::new(move |contender| {
        let contender = contender.as_any().downcast_mut::<T>();
        work(contender.expect("prepared for this contender"));
    })
}

impl Contender for Indexed {
    fn prepare_events(&self, scene: &Scene) -> Ready {
        let events = scene.events.clone();
        work(move |ours: &mut Self| ours.apply(&events))
    }

    fn prepare_lookups(&self, prompts: &[&Prompt]) -> Ready {
        let chains: Vec<_> = prompts.iter().map(|prompt| prompt.chain.clone()).collect();
        work(move |ours: &mut Self| {
            for chain in chains {
                black_box(ours.look_up(&chain));
            }
        })
    }

    fn matches(&mut self, prompt: &Prompt) -> Matches {
        let depths = self.look_up(&prompt.chain).iter().copied().enumerate();
        depths.filter(|&(_, depth)| depth > 0).collect()
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Their single-threaded tree takes the prompt by value and frees it. So that all do the
/// same, the others free theirs too.
impl Contender for RadixTree {
    fn prepare_events(&self, scene: &Scene) -> Ready {
        let events = router_events(scene);
        work(move |tree: &mut Self| {
            for event in events {
                tree.apply_event(event)
                    .expect("events follow their parents");
            }
        })
    }

    fn prepare_lookups(&self, prompts: &[&Prompt]) -> Ready {
        let prompts: Vec<_> = prompts.iter().copied().map(hashes).collect();
        work(move |tree: &mut Self| {
            for prompt in prompts {
                black_box(tree.find_matches(prompt, false));
            }
        })
    }

    fn matches(&mut self, prompt: &Prompt) -> Matches {
        plain(self.find_matches(hashes(prompt), false))
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Their concurrent tree applies events on a thread of its own, which also owns a part of
/// the index. The events wait in its channel before the clock starts.
struct Concurrent {
    tree: Arc<ConcurrentRadixTreeCompressed>,
    tasks: flume::Sender<WorkerTask>,
    received: Option<flume::Receiver<WorkerTask>>,
    thread: Option<JoinHandle<()>>,
}

impl Concurrent {
    fn new() -> Self {
        let (tasks, received) = flume::unbounded();
        Self {
            tree: Arc::new(ConcurrentRadixTreeCompressed::new()),
            tasks,
            received: Some(received),
            thread: None,
        }
    }
}

impl Drop for Concurrent {
    fn drop(&mut self) {
        let _ = self.tasks.send(WorkerTask::Terminate);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Contender for Concurrent {
    fn prepare_events(&self, scene: &Scene) -> Ready {
        for event in router_events(scene) {
            let _ = self.tasks.send(WorkerTask::Event(event));
        }
        let (done, applied) = tokio::sync::oneshot::channel();
        let _ = self.tasks.send(WorkerTask::Flush(done));
        work(move |concurrent: &mut Self| {
            let tree = Arc::clone(&concurrent.tree);
            let received = concurrent.received.take().expect("events are applied once");
            concurrent.thread = Some(std::thread::spawn(move || {
                tree.worker(received, None).expect("the worker runs");
            }));
            applied.blocking_recv().expect("the worker answers");
        })
    }

    fn prepare_lookups(&self, prompts: &[&Prompt]) -> Ready {
        let prompts: Vec<_> = prompts.iter().copied().map(hashes).collect();
        work(move |concurrent: &mut Self| {
            for prompt in prompts {
                black_box(concurrent.tree.find_matches_impl(&prompt, false));
            }
        })
    }

    fn matches(&mut self, prompt: &Prompt) -> Matches {
        plain(self.tree.find_matches_impl(&hashes(prompt), false))
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

/// Their flat map by position and content, with the jump that its documentation names.
struct Positional {
    index: PositionalIndexer,
    blocks: FxHashMap<WorkerWithDpRank, LevelIndex>,
}

impl Positional {
    fn new() -> Self {
        Self {
            index: PositionalIndexer::new_with_mode(32, SearchMode::Strided),
            blocks: FxHashMap::default(),
        }
    }
}

impl Contender for Positional {
    fn prepare_events(&self, scene: &Scene) -> Ready {
        let events = router_events(scene);
        work(move |positional: &mut Self| {
            for event in events {
                let applied = positional
                    .index
                    .apply_event(&mut positional.blocks, event, None);
                applied.expect("events follow their parents");
            }
        })
    }

    fn prepare_lookups(&self, prompts: &[&Prompt]) -> Ready {
        let prompts: Vec<_> = prompts.iter().copied().map(hashes).collect();
        work(move |positional: &mut Self| {
            for prompt in prompts {
                black_box(positional.index.find_matches(&prompt, false));
            }
        })
    }

    fn matches(&mut self, prompt: &Prompt) -> Matches {
        plain(self.index.find_matches(&hashes(prompt), false))
    }

    fn as_any(&mut self) -> &mut dyn std::any::Any {
        self
    }
}

fn hashes(prompt: &Prompt) -> Vec<LocalBlockHash> {
    prompt
        .local
        .iter()
        .map(|hash| LocalBlockHash(hash.0))
        .collect()
}

fn plain(scores: OverlapScores) -> Matches {
    let by_worker = scores.scores.into_iter();
    by_worker
        .map(|(worker, depth)| (worker.worker_id as usize, depth))
        .filter(|&(_, depth)| depth > 0)
        .collect()
}

fn router_events(scene: &Scene) -> Vec<RouterEvent> {
    let event = |(number, (worker, event)): (usize, &(usize, KvEvent))| {
        let event = KvCacheEvent {
            event_id: number as u64,
            data: data(event),
            dp_rank: 0,
        };
        RouterEvent::new(*worker as u64, event)
    };
    scene.events.iter().enumerate().map(event).collect()
}

fn data(event: &KvEvent) -> KvCacheEventData {
    let external = |hash: &contract::BlockHash| ExternalSequenceBlockHash(hash.0);
    match event {
        KvEvent::Stored { parent, blocks } => KvCacheEventData::Stored(KvCacheStoreData {
            parent_hash: parent.as_ref().map(external),
            start_position: None,
            blocks: blocks
                .iter()
                .map(|block| KvCacheStoredBlockData {
                    block_hash: external(&block.hash),
                    tokens_hash: LocalBlockHash(block.local.0),
                    mm_extra_info: None,
                })
                .collect(),
        }),
        KvEvent::Removed { blocks } => KvCacheEventData::Removed(KvCacheRemoveData {
            block_hashes: blocks.iter().map(external).collect(),
        }),
        KvEvent::Cleared => KvCacheEventData::Cleared,
    }
}
