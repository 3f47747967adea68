//! The crates of the workspace: where each one is, and what it may depend on.
//!
//! This table is the architecture. A crate uses only crates of lower layers, so that every
//! stage can be read, built and tested without those above or beside it; [`crate::tidy`]
//! checks that, and `cargo xtask codegen` writes the map in `ARCHITECTURE.md` from it.

use std::fmt::Write as _;

/// A folder of `crates/`.
pub(crate) struct Group {
    pub(crate) folder: &'static str,
    about: &'static str,
    crates: &'static [Crate],
}

pub(crate) struct Crate {
    pub(crate) name: &'static str,
    pub(crate) layer: usize,
    about: &'static str,
}

const fn of(name: &'static str, layer: usize, about: &'static str) -> Crate {
    Crate { name, layer, about }
}

/// In the order in which a request meets them.
const GROUPS: [Group; 6] = [
    Group {
        folder: "serve",
        about: "a request's way from the client to a worker and back",
        crates: &[
            of(
                "openai",
                0,
                "the OpenAI wire format: requests, responses, events",
            ),
            of(
                "bpe",
                1,
                "text to tokens by byte-pair merges, for a model's tokenizer.json",
            ),
            of(
                "preprocess",
                2,
                "text ⇄ tokens: template, tokenizer, limits, detokenising, stop strings",
            ),
            of(
                "answer-parser",
                0,
                "splits an answer's text into reasoning, content and tool calls, as it streams",
            ),
            of(
                "router",
                1,
                "chooses a worker, reserves a slot on it, explains why",
            ),
            of(
                "transport",
                1,
                "links to workers, event feeds, membership; in-memory versions of each",
            ),
            of(
                "frontend",
                3,
                "the HTTP service: admit, prepare, route, dispatch, stream",
            ),
            of(
                "epp",
                4,
                "the endpoint picker of a gateway, over Envoy's external processing",
            ),
        ],
    },
    Group {
        folder: "engines",
        about: "what computes answers",
        crates: &[
            of(
                "engine",
                2,
                "continuous batching, block pool, prefix reuse; the `Executor` trait; the simulator",
            ),
            of(
                "model-store",
                1,
                "fetches a model's files into the user's cache, and finds them",
            ),
            of(
                "checkpoint",
                1,
                "a model's files: shape, tensors, formats, tokenizer; Hugging Face, GGUF, EAGLE-3 heads",
            ),
            of(
                "sampling",
                2,
                "from distributions to tokens: draws, accepting drafts, n-gram drafts",
            ),
            of(
                "llama",
                3,
                "an executor that computes real models on the CPU",
            ),
            of(
                "cuda",
                3,
                "an executor that computes real models on an NVIDIA GPU",
            ),
            of("worker", 3, "an engine that a frontend can reach"),
        ],
    },
    Group {
        folder: "reach",
        about: "workers on other machines, and engines that are not ours",
        crates: &[
            of("block-mirror", 1, "an engine's cache in our block hashes"),
            of("etcd", 1, "client of etcd: registrations, leases, watches"),
            of(
                "kubernetes",
                1,
                "watches what Kubernetes knows about a service",
            ),
            of("nats", 1, "a connection to a NATS server that is kept"),
            of("zmtp", 1, "ZeroMQ's wire protocol"),
            of(
                "remote",
                2,
                "our workers on other machines: request, event and discovery planes",
            ),
            of(
                "adapters",
                2,
                "vLLM, SGLang, TensorRT-LLM and OpenAI servers as workers",
            ),
            of("dynamo", 2, "Dynamo's workers, over their own protocols"),
            of(
                "otlp",
                2,
                "sends the spans of requests to an OpenTelemetry collector",
            ),
        ],
    },
    Group {
        folder: "prove",
        about: "load, measurements and their display, experiments, faults",
        crates: &[
            of(
                "loadgen",
                1,
                "conversations, arrival, measurement; client of a live server",
            ),
            of(
                "console",
                2,
                "the web console's API: state, stream, history, pages",
            ),
            of(
                "stats",
                2,
                "figures, intervals, verdicts and summaries from raw records",
            ),
            of(
                "lab",
                3,
                "the virtual laboratory: the shipped cores in simulated time",
            ),
            of(
                "report",
                3,
                "a summary as a page, as Markdown and for other tools",
            ),
            of(
                "sweep",
                4,
                "plans, folders, virtual and live runs; publishes the report",
            ),
            of("rivals", 4, "benchmarks only: other systems' routing rules"),
            of(
                "test-servers",
                0,
                "tests only: etcd, NATS, Dynamo's processes and a stand-in for Kubernetes",
            ),
            of(
                "testkit",
                4,
                "tests only: a cluster in one process, on a paused clock",
            ),
            of("chaos", 4, "tests only: faults in virtual time"),
        ],
    },
    Group {
        folder: "base",
        about: "what the others share",
        crates: &[
            of(
                "contract",
                0,
                "the nouns that stages exchange: requests, chunks, blocks, events, worker cards",
            ),
            of(
                "grammar",
                1,
                "constrained output: which tokens may come next",
            ),
            of(
                "http-client",
                0,
                "our one HTTP client: pooled connections, TLS, bounded responses",
            ),
            of(
                "request-trace",
                1,
                "recorded requests: a line for each, and the file that lines go to",
            ),
            of(
                "spans",
                1,
                "the spans of a request: which requests have some, and how they are collected",
            ),
            of(
                "tasks",
                0,
                "work in the background: start, stop, wait, retry",
            ),
            of(
                "telemetry",
                0,
                "metrics: the catalogue of names, cells, the text format",
            ),
        ],
    },
    Group {
        folder: "",
        about: "the program",
        crates: &[of(
            "homing",
            5,
            "command line, configuration, wiring; the only reader of the environment",
        )],
    },
];

/// The crate of this name, and the folder that it must be in.
pub(crate) fn find(name: &str) -> Option<(&'static Group, &'static Crate)> {
    GROUPS.iter().find_map(|group| {
        let found = group.crates.iter().find(|known| known.name == name)?;
        Some((group, found))
    })
}

impl Group {
    /// The folder of one of its crates, from the root.
    pub(crate) fn path_of(&self, name: &str) -> String {
        match self.folder {
            "" => format!("crates/{name}"),
            folder => format!("crates/{folder}/{name}"),
        }
    }
}

/// The map for readers, in Markdown.
pub(crate) fn map() -> String {
    let mut map = String::from("| crate | layer | what it does |\n|---|---|---|\n");
    for group in &GROUPS {
        let folder = match group.folder {
            "" => "crates/",
            folder => &format!("crates/{folder}/"),
        };
        let _ = writeln!(map, "| **`{folder}`** | | **{}** |", group.about);
        for one in group.crates {
            let _ = writeln!(map, "| `{}` | {} | {} |", one.name, one.layer, one.about);
        }
    }
    map
}
