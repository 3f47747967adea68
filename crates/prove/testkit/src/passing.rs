//! Engines that a proxy asks itself: a frontend picks them, and sees their answers pass by.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use contract::{
    Abilities, BlockFormat, Clock, FinishReason, ForwardPath, ForwardRequest, FrontendId,
    GenerateRequest, GpuSpec, KvSnapshot, LinkError, ModelName, Started, TokenChunk, TokenStream,
    WorkerCard, WorkerId, Written,
};
use frontend::{
    Access, FaultLimits, ForwardPolicy, Frontend, FrontendConfig, ModelParts, Parts, StoreLimits,
};
use openai::UnknownFields;
use parking_lot::Mutex;
use preprocess::{PreprocessConfig, Preprocessor};
use request_trace::Recorder;
use router::{Router, RouterConfig};
use spans::Tracer;
use tasks::Tasks;
use telemetry::Registry;
use transport::{
    Change, FeedPublisher, Forwarder, LinkFuture, Member, Overheard, Roster, WorkerLink, feed,
};

/// Of each engine.
pub const SLOTS: u32 = 2;
pub const LONGEST_BODY: usize = 1 << 20;
const LARGE_BODIES: usize = 64 << 20;

/// Where an engine's server would listen.
pub fn address(worker: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, worker as u8], 8000))
}

/// An engine's server that nobody asks.
#[derive(Debug)]
struct Remote {
    worker: WorkerId,
    /// Bytes that have passed by.
    heard: Heard,
}

impl WorkerLink for Remote {
    fn generate(&self, _: GenerateRequest) -> LinkFuture<'_, TokenStream> {
        Box::pin(async {
            Err(LinkError::Draining {
                worker: self.worker,
            })
        })
    }

    fn snapshot(&self) -> LinkFuture<'_, KvSnapshot> {
        Box::pin(async { Ok(KvSnapshot::default()) })
    }

    fn reset_cache(&self) -> LinkFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn forwarder(&self) -> Option<&dyn Forwarder> {
        Some(self)
    }
}

impl Forwarder for Remote {
    fn forward<'a>(
        &'a self,
        _: &'a GenerateRequest,
        _: &'a ForwardRequest,
    ) -> LinkFuture<'a, TokenStream> {
        Box::pin(async {
            Err(LinkError::Draining {
                worker: self.worker,
            })
        })
    }

    fn address(&self) -> Option<SocketAddr> {
        Some(address(self.worker.0))
    }

    fn overhear(&self, _: &GenerateRequest, _: &ForwardRequest) -> Box<dyn Overheard> {
        Box::new(Ear {
            heard: Arc::clone(&self.heard),
            chunks: Vec::new(),
        })
    }
}

/// Takes each push for a token, and the end for the last.
#[derive(Debug)]
struct Ear {
    heard: Heard,
    chunks: Vec<TokenChunk>,
}

impl Ear {
    fn chunk(&mut self, tokens: u32, finish: Option<FinishReason>) {
        self.chunks.push(TokenChunk {
            started: finish.is_none().then(|| {
                Box::new(Started {
                    cached_tokens: 7,
                    intake: Duration::ZERO,
                    queue_wait: Duration::ZERO,
                    prefill: Duration::ZERO,
                })
            }),
            finish,
            written: Some(Box::new(Written {
                bytes: vec![b'x'],
                tokens,
            })),
            ..TokenChunk::default()
        });
    }
}

impl Overheard for Ear {
    fn push(&mut self, bytes: &[u8], _: Duration) {
        self.heard.lock().extend_from_slice(bytes);
        self.chunk(1, None);
    }

    fn end(&mut self, _: Duration) {
        self.chunk(0, Some(FinishReason::Stop));
    }

    fn pop(&mut self) -> Option<TokenChunk> {
        match self.chunks.is_empty() {
            true => None,
            false => Some(self.chunks.remove(0)),
        }
    }
}

fn card(worker: WorkerId) -> WorkerCard {
    WorkerCard {
        id: worker,
        name: format!("engine-{worker}"),
        model: ModelName::new("m"),
        blocks: BlockFormat::new(32),
        total_blocks: 1000,
        slots: SLOTS,
        max_step_tokens: 8192,
        max_context_tokens: 100_000,
        gpu: GpuSpec {
            kind: "none".to_owned(),
            count: 0,
            memory_bytes: 0,
        },
        engine: "openai".to_owned(),
        simulated: false,
        abilities: Abilities::default(),
        speculation: "none".to_owned(),
        forwards: vec![ForwardPath::ChatCompletions],
        adapters: Vec::new(),
    }
}

/// A frontend over three engines, 1 to 3.
#[derive(Debug)]
pub struct PassingFleet {
    pub frontend: Frontend,
    pub router: Router,
    /// What has passed by, from each.
    pub heard: Vec<Heard>,
    _roster: Roster,
    _feeds: Vec<FeedPublisher>,
    _tasks: Tasks,
}

/// Bytes that have passed by.
pub type Heard = Arc<Mutex<Vec<u8>>>;

fn config(max_requests: usize, max_body_bytes: usize) -> FrontendConfig {
    FrontendConfig {
        max_requests,
        max_body_bytes,
        max_buffered_bytes: LARGE_BODIES,
        max_queue_wait: Some(Duration::from_secs(3600)),
        trust_priority: false,
        unknown_fields: UnknownFields::Ignore,
        normalize_agents: false,
        stored_responses: StoreLimits {
            entries: 0,
            bytes: 0,
        },
        access: Access::Open,
        api_keys: None,
        faults: FaultLimits::default(),
        slow_reader_timeout: Duration::from_secs(30),
        forward: ForwardPolicy::default(),
    }
}

/// A frontend whose engines' answers only pass by, and that takes bodies of so many bytes.
pub async fn passing_fleet(max_requests: usize, max_body_bytes: usize) -> PassingFleet {
    traced_fleet(max_requests, max_body_bytes, Tracer::off()).await
}

/// The same, with spans of its requests.
pub async fn traced_fleet(
    max_requests: usize,
    max_body_bytes: usize,
    tracer: Tracer,
) -> PassingFleet {
    let (clock, registry) = (Clock::start(), Registry::new());
    let config = config(max_requests, max_body_bytes);
    let parts = Parts {
        registry: registry.clone(),
        clock,
        id: FrontendId(0),
        fleet_commands: None,
        shares_engines: false,
        tracer,
        recorder: Recorder::off(),
    };
    let frontend = Frontend::new(config, parts);
    let (roster, changes) = transport::roster();
    let router = Router::new(RouterConfig::new(32), &registry, clock);
    let model = ModelParts {
        name: ModelName::new("m"),
        preprocessor: Preprocessor::embedded(PreprocessConfig::default()),
        router: router.clone(),
        adapters: Vec::new(),
        changes,
    };
    let tasks = Tasks::new();
    frontend.serve_model(model, &tasks);
    let (mut heard, mut feeds) = (Vec::new(), Vec::new());
    for worker in 1..=3 {
        let worker = WorkerId(worker);
        let ear = Heard::default();
        let (publisher, feed) = feed(clock);
        let link = Remote {
            worker,
            heard: Arc::clone(&ear),
        };
        let member = Member {
            card: card(worker),
            link: Arc::new(link),
            feed,
            warm: false,
            lease: None,
        };
        roster.announce(Change::Joined(Box::new(member))).await;
        heard.push(ear);
        feeds.push(publisher);
    }
    while router.members().len() < 3 {
        tokio::task::yield_now().await;
    }
    PassingFleet {
        frontend,
        router,
        heard,
        _roster: roster,
        _feeds: feeds,
        _tasks: tasks,
    }
}
