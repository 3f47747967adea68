//! Options of `frontend` and `worker`: the same system on several machines.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use adapters::EngineSpec;
use clap::{Args, ValueEnum};
use remote::tls::{Tls, TlsFiles};

use super::shared::ForwardChoice;
use super::{
    ConsoleArgs, EngineArgs, GeneralArgs, HttpsArgs, LimitArgs, LoadArgs, ModelArgs, PeerArgs,
    RoutingArgs, SloArgs, TracingArgs, seconds,
};

pub(super) const FRONTEND_EXAMPLES: &str = "\
Examples:
  homing frontend --workers http://10.0.0.1:7000,http://10.0.0.2:7000
  homing frontend --discovery etcd --etcd http://10.0.0.9:2379 --nats nats://10.0.0.9:4222
  homing frontend --discovery kubernetes --kubernetes-service homing-worker
  homing frontend --upstream vllm=http://10.0.0.1:8000,events=tcp://10.0.0.1:5557 --model-path DIR --model-name NAME --kv-cache-block-size 16
  homing frontend --workers http://10.0.0.1:7000 --console-port 3000 --load http://10.0.0.5:9000
  homing frontend --discovery dynamo-file --dynamo-file-kv DIR --model-path DIR --model-name NAME --kv-cache-block-size 32";

pub(super) const WORKER_EXAMPLES: &str = "\
Examples:
  homing worker                                      on loopback, port 7000
  homing worker --host 0.0.0.0 --advertise 10.0.0.1 --discovery etcd --etcd http://10.0.0.9:2379
  homing worker --port 0 --events nats --nats nats://10.0.0.9:4222";

/// Options of the frontend.
#[derive(Clone, Debug, Args)]
pub(crate) struct FrontendArgs {
    /// Port of the OpenAI-compatible API; 0 picks a free one
    #[arg(long, default_value_t = 8000, help_heading = "Addresses")]
    pub(crate) http_port: u16,
    /// Address to listen on; beyond loopback, changing anything needs the control token
    #[arg(long, default_value = "127.0.0.1", help_heading = "Addresses")]
    pub(crate) host: IpAddr,
    /// Token for operations that change the server (router mode, cache reset)
    ///
    /// Sent as `Authorization: Bearer TOKEN`. Not needed on loopback without --api-key-file unless
    /// set; made up and printed where it is needed and not given.
    #[arg(long, help_heading = "Addresses")]
    pub(crate) control_token: Option<String>,
    /// Further host names under which the server may be asked for, separated by commas
    ///
    /// On loopback without --api-key-file it answers to localhost, 127.0.0.1 and [::1] only, so
    /// that no web page can reach it by a name of its own. Behind a reverse proxy, name the
    /// proxy's host here.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        help_heading = "Addresses"
    )]
    pub(crate) allowed_hosts: Vec<String>,
    /// File with the keys that clients may use; by default no key is asked for
    ///
    /// One key a line, or TOML or JSON with each key's name, highest priority, share, limit and
    /// cache (docs/keys.md). Followed while the server runs.
    #[arg(long, value_name = "FILE", help_heading = "Addresses")]
    pub(crate) api_key_file: Option<PathBuf>,

    /// How workers are found: static, etcd, kubernetes, dynamo-etcd, dynamo-file, dynamo-kubernetes
    ///
    /// static takes the list of --workers; etcd asks a server where workers register
    /// themselves; kubernetes watches the pods behind a headless Service. Those with dynamo-
    /// find genuine NVIDIA Dynamo workers where those register, and speak their protocol;
    /// they need --model-path, --model-name and --kv-cache-block-size as theirs.
    #[arg(long, value_enum, default_value_t = Discovery::Static, hide_possible_values = true, help_heading = "Workers")]
    pub(crate) discovery: Discovery,
    /// Addresses of the workers, separated by commas (static)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "URLS",
        help_heading = "Workers"
    )]
    pub(crate) workers: Vec<String>,
    #[command(flatten)]
    pub(crate) upstream: UpstreamArgs,
    /// When requests go to such a server as they came, and it writes the answer: auto, always, never
    ///
    /// auto: where a request needs what the server has and Homing does not do over tokens: tools,
    /// structured output, images, fields that Homing does not support. All others are sent as
    /// token ids, so that they survive the loss of an engine in the midst of an answer.
    /// docs/forwarding.md
    #[arg(long, value_enum, default_value_t = ForwardChoice::Auto, value_name = "WHEN", hide_possible_values = true, help_heading = "Workers")]
    pub(crate) forward: ForwardChoice,
    #[command(flatten, next_help_heading = "Workers")]
    pub(crate) etcd: EtcdArgs,
    /// Headless Service that selects the workers' pods, with their port named grpc (kubernetes)
    #[arg(long, value_name = "NAME", help_heading = "Workers")]
    pub(crate) kubernetes_service: Option<String>,
    /// Namespace of the workers; by default the pod's own (kubernetes, dynamo-kubernetes)
    #[arg(long, value_name = "NAMESPACE", help_heading = "Workers")]
    pub(crate) kubernetes_namespace: Option<String>,
    /// Folder in which Dynamo workers register (dynamo-file)
    #[arg(long, value_name = "DIR", help_heading = "Workers")]
    pub(crate) dynamo_file_kv: Option<PathBuf>,
    /// Take only Dynamo workers of this namespace; by default all (dynamo-...)
    #[arg(long, value_name = "NAME", help_heading = "Workers")]
    pub(crate) dynamo_namespace: Option<String>,
    /// Address on which Dynamo workers deliver their answers; port 0 picks a free one
    #[arg(
        long,
        value_name = "HOST:PORT",
        default_value = "0.0.0.0:0",
        help_heading = "Workers"
    )]
    pub(crate) dynamo_listen: SocketAddr,
    /// Host that Dynamo workers are told to deliver to; by default that of --dynamo-listen, or the one that faces them
    #[arg(long, value_name = "HOST", help_heading = "Workers")]
    pub(crate) dynamo_advertise: Option<String>,
    /// Where NATS is, for workers that publish their events there, and for Dynamo's that take requests from there
    #[arg(long, value_name = "URL", help_heading = "Workers")]
    pub(crate) nats: Option<String>,
    /// Separates several clusters that share an etcd or a NATS
    #[arg(long, default_value = "default", help_heading = "Workers")]
    pub(crate) cluster: String,
    #[command(flatten)]
    pub(crate) blocks: BlockArgs,
    #[command(flatten)]
    pub(crate) worker_tls: WorkerTlsArgs,
    #[command(flatten)]
    pub(crate) peers: PeerArgs,
    #[command(flatten)]
    pub(crate) https: HttpsArgs,

    #[command(flatten)]
    pub(crate) model: ModelArgs,

    #[command(flatten)]
    pub(crate) routing: RoutingArgs,

    /// Failures after which a request is not moved to yet another worker
    #[arg(long, default_value_t = 3, help_heading = "Faults")]
    pub(crate) migration_limit: u32,
    /// A worker that gives neither a first token nor a sign of life for so long has failed, in seconds
    #[arg(long, default_value = "300", value_parser = seconds, value_name = "SECONDS", help_heading = "Faults")]
    pub(crate) first_token_timeout: Duration,
    /// A worker that says nothing in the middle of an answer for so long has failed, in seconds
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Faults")]
    pub(crate) stall_timeout: Duration,

    #[command(flatten)]
    pub(crate) console: FrontendConsoleArgs,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) tracing: TracingArgs,
    /// Seed of the router's draws among equals
    #[arg(long, default_value_t = 42, help_heading = "General")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) general: GeneralArgs,
}

/// The frontend's web console, and the load that it drives.
#[derive(Clone, Debug, Args)]
pub(crate) struct FrontendConsoleArgs {
    /// Port of the web console; 0 picks a free one; by default there is none
    #[arg(long, value_name = "PORT", help_heading = "Console")]
    pub(crate) console_port: Option<u16>,
    /// Address of that port; by default that of the API
    #[arg(
        long,
        value_name = "HOST",
        requires = "console_port",
        help_heading = "Console"
    )]
    pub(crate) console_host: Option<IpAddr>,
    #[command(flatten)]
    pub(crate) page: ConsoleArgs,
    #[command(flatten)]
    pub(crate) slo: SloArgs,
    /// Load generator elsewhere that the console shows and drives: the address of its own console
    ///
    /// A `homing loadgen --console-port`. Without this option the load generator runs in this
    /// process and takes its processor time from the router.
    #[arg(
        long = "load",
        value_name = "URL",
        requires = "console_port",
        conflicts_with = "no_load",
        help_heading = "Load"
    )]
    pub(crate) load_url: Option<String>,
    /// Environment variable with that load generator's control token
    #[arg(
        long,
        value_name = "NAME",
        requires = "load_url",
        help_heading = "Load"
    )]
    pub(crate) load_token_env: Option<String>,
    /// Environment variable with the API key that a load generator in this process uses
    ///
    /// Needed with --api-key-file, whose keys it must have.
    #[arg(long, value_name = "NAME", help_heading = "Load")]
    pub(crate) load_api_key_env: Option<String>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// Servers of other inference engines.
#[derive(Clone, Debug, Args)]
pub(crate) struct UpstreamArgs {
    /// A server of another inference engine, beside any workers; may be given repeatedly
    ///
    /// KIND is vllm, sglang, trtllm or openai, URL its OpenAI-compatible server. Options after
    /// commas: events=tcp://HOST:PORT and replay=tcp://HOST:PORT where it publishes its cache,
    /// slots=N, blocks=N, name=NAME, model=NAME, drafts=draft|eagle3|ngram. It needs --model-path,
    /// --model-name and --kv-cache-block-size as the engine has them.
    #[arg(
        long = "upstream",
        alias = "engine",
        value_name = "KIND=URL[,OPTION=VALUE]",
        help_heading = "Workers"
    )]
    pub(crate) upstreams: Vec<EngineSpec>,
    /// File with more of them, one KIND=URL[,OPTION=VALUE] a line, followed while the server runs
    ///
    /// Empty lines and lines that begin with # are left out. A server whose line is added joins, one whose
    /// line is removed leaves. A file that cannot be read or has an error changes nothing.
    #[arg(long, value_name = "FILE", help_heading = "Workers")]
    pub(crate) endpoints_file: Option<PathBuf>,
    /// An adapter (LoRA) of the model that these servers serve under this name; may be given repeatedly
    ///
    /// Requests for it go to servers that have it loaded, and their cache is kept apart.
    #[arg(long = "adapter", value_name = "NAME", help_heading = "Workers")]
    pub(crate) adapters: Vec<String>,
    /// Environment variable with the API key that these servers ask for
    #[arg(
        long,
        alias = "engine-api-key-env",
        value_name = "NAME",
        help_heading = "Workers"
    )]
    pub(crate) upstream_api_key_env: Option<String>,
    /// Such a server that takes connections but says nothing for so long has failed, in seconds
    ///
    /// One that refuses connections or reports that it is unhealthy is removed after six seconds.
    #[arg(long, default_value = "120", value_parser = seconds, value_name = "SECONDS", help_heading = "Faults")]
    pub(crate) upstream_silence_timeout: Duration,
}

/// How prompts become blocks, and how long they may be.
#[derive(Clone, Debug, Args)]
pub(crate) struct BlockArgs {
    /// Tokens per KV block, as the workers have it; by default the default profile's
    #[arg(long, help_heading = "Workers", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) kv_cache_block_size: Option<u32>,
    /// Tokens after a block that its name covers as well: 1 where workers speculate with EAGLE
    #[arg(long, default_value_t = 0, help_heading = "Workers", value_parser = clap::value_parser!(u32).range(0..=1))]
    pub(crate) kv_hash_lookahead: u32,
    /// Longest prompt plus answer; by default the default profile's
    #[arg(long, help_heading = "Workers")]
    pub(crate) max_context_tokens: Option<u32>,
}

/// Options of a worker.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkerArgs {
    /// Port of the request plane (gRPC); 0 picks a free one
    #[arg(long, default_value_t = 7000, help_heading = "Addresses")]
    pub(crate) port: u16,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1", help_heading = "Addresses")]
    pub(crate) host: IpAddr,
    /// Host at which frontends reach this worker; by default the address it listens on
    #[arg(long, value_name = "HOST", help_heading = "Addresses")]
    pub(crate) advertise: Option<String>,
    /// Port of /metrics, /health and /live; 0 picks a free one; by default there is none
    #[arg(long, help_heading = "Addresses")]
    pub(crate) metrics_port: Option<u16>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,

    /// Name for people; by default made from the id
    #[arg(long, help_heading = "Worker")]
    pub(crate) name: Option<String>,
    /// Number that tells this worker from others; by default drawn at random
    #[arg(long, help_heading = "Worker")]
    pub(crate) worker_id: Option<u64>,
    /// Simulated hardware and model: a built-in profile's name or the path of a TOML file
    #[arg(long, default_value = engine::sim::PUBLISHED_PROFILE, help_heading = "Worker")]
    pub(crate) profile: String,
    /// Seed of everything random; workers with the same seed give the same answers
    #[arg(long, default_value_t = 42, help_heading = "Worker")]
    pub(crate) seed: u64,
    /// Tokens per KV block; by default the profile's, or 32
    #[arg(long, help_heading = "Worker", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) kv_cache_block_size: Option<u32>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) engine: EngineArgs,

    /// Where to register: etcd, or nowhere: static, kubernetes
    #[arg(long, value_enum, default_value_t = Discovery::Static, hide_possible_values = true, help_heading = "Cluster")]
    pub(crate) discovery: Discovery,
    #[command(flatten, next_help_heading = "Cluster")]
    pub(crate) etcd: EtcdArgs,
    /// A registration outlives its worker by at most so long, in seconds
    #[arg(long, default_value = "5", value_parser = seconds, value_name = "SECONDS", help_heading = "Cluster")]
    pub(crate) registration_ttl: Duration,
    /// How events travel: grpc, nats, zmq
    ///
    /// grpc sends them to each frontend directly; nats publishes them on a server; zmq
    /// publishes them on a port of its own and keeps the latest for those who missed some.
    #[arg(long, value_enum, default_value_t = EventPlane::Grpc, hide_possible_values = true, help_heading = "Cluster")]
    pub(crate) events: EventPlane,
    /// Where NATS is (nats)
    #[arg(
        long,
        value_name = "URL",
        default_value = "nats://127.0.0.1:4222",
        help_heading = "Cluster"
    )]
    pub(crate) nats: String,
    /// Port on which events are published, and the one after it; 0 picks free ones (zmq)
    #[arg(long, default_value_t = 0, help_heading = "Cluster")]
    pub(crate) zmq_port: u16,
    /// Separates several clusters that share an etcd or a NATS
    #[arg(long, default_value = "default", help_heading = "Cluster")]
    pub(crate) cluster: String,

    /// Requests held at once, running or waiting; more are refused
    #[arg(long, default_value_t = 4096, help_heading = "Limits")]
    pub(crate) max_requests: usize,
    /// How long running requests may take to finish after SIGTERM, in seconds
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) shutdown_grace: Duration,
    #[command(flatten)]
    pub(crate) general: GeneralArgs,
}

/// Where etcd is, and how it is trusted.
#[derive(Clone, Debug, Args)]
pub(crate) struct EtcdArgs {
    /// Endpoints of etcd, separated by commas (etcd)
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "URLS",
        default_value = "http://127.0.0.1:2379"
    )]
    pub(crate) etcd: Vec<String>,
    /// PEM file of the authority that signs etcd's certificate; by default the system's (https)
    #[arg(long, value_name = "FILE")]
    pub(crate) etcd_ca: Option<PathBuf>,
    /// PEM file of the certificate that etcd asks clients for
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    pub(crate) etcd_cert: Option<PathBuf>,
    /// PEM file of that certificate's key
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    pub(crate) etcd_key: Option<PathBuf>,
}

/// Certificates of the request plane, on the frontend's side.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkerTlsArgs {
    /// Who signs the workers' certificates (PEM); with it, both sides must have one
    #[arg(long, value_name = "FILE", requires_all = ["worker_tls_cert", "worker_tls_key"], help_heading = "Workers")]
    pub(crate) worker_tls_ca: Option<PathBuf>,
    /// Certificate that workers are shown (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "worker_tls_ca",
        help_heading = "Workers"
    )]
    pub(crate) worker_tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "worker_tls_ca",
        help_heading = "Workers"
    )]
    pub(crate) worker_tls_key: Option<PathBuf>,
}

impl WorkerTlsArgs {
    pub(crate) fn read(self) -> anyhow::Result<Option<Tls>> {
        let sides = TlsArgs {
            tls_ca: self.worker_tls_ca,
            tls_cert: self.worker_tls_cert,
            tls_key: self.worker_tls_key,
        };
        sides.read()
    }
}

/// Certificates of the request plane, on the worker's side.
#[derive(Clone, Debug, Args)]
pub(crate) struct TlsArgs {
    /// Who signs the frontends' certificates (PEM); with it, both sides must have one
    #[arg(long, value_name = "FILE", requires_all = ["tls_cert", "tls_key"], help_heading = "TLS")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// Certificate that frontends are shown (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca", help_heading = "TLS")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_ca", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,
}

impl TlsArgs {
    pub(crate) fn read(&self) -> anyhow::Result<Option<Tls>> {
        let (Some(ca), Some(certificate), Some(key)) =
            (&self.tls_ca, &self.tls_cert, &self.tls_key)
        else {
            return Ok(None);
        };
        let files = TlsFiles {
            ca: ca.clone(),
            certificate: certificate.clone(),
            key: key.clone(),
        };
        Ok(Some(Tls::read(&files)?))
    }
}

/// How frontends find workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Discovery {
    Static,
    Etcd,
    Kubernetes,
    DynamoEtcd,
    DynamoFile,
    DynamoKubernetes,
}

/// How events travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventPlane {
    Grpc,
    Nats,
    Zmq,
}
