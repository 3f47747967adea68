//! Options of `epp`: the router alone, behind somebody else's gateway.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::cluster::{BlockArgs, UpstreamArgs};
use super::{GeneralArgs, ModelArgs, PeerArgs, RoutingArgs, TracingArgs, seconds};
use crate::pool_endpoints::EngineTemplate;

pub(super) const EXAMPLES: &str = "\
Examples:
  homing epp --upstream vllm=http://10.0.0.1:8000,events=tcp://10.0.0.1:5557 --upstream vllm=http://10.0.0.2:8000,events=tcp://10.0.0.2:5557 --model-path DIR --kv-cache-block-size 16
  homing epp --pool llama-pool --pool-engine vllm,events=tcp://*:5557 --model-path DIR --host 0.0.0.0
  homing epp --endpoints-file endpoints.txt --model-path DIR --host 0.0.0.0
  homing epp --upstream openai=http://127.0.0.1:8000 --model-path DIR --plaintext --fallbacks 2";

/// Options of the endpoint picker.
#[derive(Clone, Debug, Args)]
pub(crate) struct EppArgs {
    /// Port on which gateways ask (gRPC, Envoy's ext_proc); 0 picks a free one
    #[arg(long, default_value_t = 9002, help_heading = "Addresses")]
    pub(crate) grpc_port: u16,
    /// Port of gRPC health checks without TLS; 0 picks a free one
    ///
    /// --grpc-port answers the same checks.
    #[arg(long, default_value_t = 9003, help_heading = "Addresses")]
    pub(crate) health_port: u16,
    /// Port of /metrics, /health, /decisions, /workers and /router; 0 picks a free one
    #[arg(long, default_value_t = 9090, help_heading = "Addresses")]
    pub(crate) metrics_port: u16,
    /// Address to listen on; beyond loopback, changing anything needs the control token
    #[arg(long, default_value = "127.0.0.1", help_heading = "Addresses")]
    pub(crate) host: IpAddr,
    /// Token for operations that change the picker (router mode, cache reset)
    ///
    /// Sent as `Authorization: Bearer TOKEN`. Not needed on loopback unless set; made up and printed
    /// where it is needed and not given.
    #[arg(long, help_heading = "Addresses")]
    pub(crate) control_token: Option<String>,
    /// Further host names under which --metrics-port may be asked, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAMES",
        help_heading = "Addresses"
    )]
    pub(crate) allowed_hosts: Vec<String>,
    /// Speak gRPC without TLS; by default with a certificate that is made at each start
    #[arg(long, conflicts_with_all = ["tls_cert", "tls_key"], help_heading = "TLS")]
    pub(crate) plaintext: bool,
    /// Certificate to show to gateways (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) upstream: UpstreamArgs,
    /// InferencePool whose ready pods are the endpoints, watched in Kubernetes
    ///
    /// Pods join and leave as the pool's selector and their readiness say; each target port is a server.
    /// Priorities of requests that name an InferenceObjective of the pool are watched too. The account must be
    /// allowed to list and watch pods, inferencepools and inferenceobjectives in the namespace.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "endpoints_file",
        help_heading = "Workers"
    )]
    pub(crate) pool: Option<String>,
    /// Namespace of the pool; by default the pod's own
    #[arg(
        long,
        value_name = "NAMESPACE",
        requires = "pool",
        help_heading = "Workers"
    )]
    pub(crate) pool_namespace: Option<String>,
    /// What the pool's servers are: KIND and options as in --upstream, with * for the pod's address
    ///
    /// For example vllm,events=tcp://*:5557,replay=tcp://*:5558. Where a pool has several target ports, the ports
    /// of events count up with them, as those of vLLM's data-parallel ranks do.
    #[arg(
        long,
        value_name = "KIND[,OPTION=VALUE]",
        default_value = "vllm",
        requires = "pool",
        help_heading = "Workers"
    )]
    pub(crate) pool_engine: EngineTemplate,
    #[command(flatten)]
    pub(crate) peers: PeerArgs,
    #[command(flatten)]
    pub(crate) blocks: BlockArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,

    /// Endpoints named after the best one, for a gateway that tries the next if one fails
    ///
    /// Envoy's override_host policy with retries takes a list. Its ORIGINAL_DST clusters take one
    /// endpoint only and answer 503 to a list, so that the default is none.
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Routing")]
    pub(crate) fallbacks: usize,
    /// Priority of requests that name this objective; may be given repeatedly
    ///
    /// The name is that of the header `x-llm-d-inference-objective` (or
    /// `x-gateway-inference-objective`). Higher goes first among those that wait; others have 0.
    #[arg(long = "objective", value_parser = objective, value_name = "NAME=PRIORITY", help_heading = "Routing")]
    pub(crate) objectives: Vec<Objective>,
    #[command(flatten)]
    pub(crate) routing: RoutingArgs,

    /// Most requests held at once, in any state
    #[arg(long, default_value_t = 16_384, help_heading = "Limits")]
    pub(crate) max_requests: usize,
    /// Largest request body; larger ones get 413
    #[arg(long, default_value_t = 16 << 20, value_name = "BYTES", help_heading = "Limits")]
    pub(crate) max_body_bytes: usize,
    /// Most bytes of large bodies held at once; further ones get 429
    #[arg(long, default_value_t = 128 << 20, value_name = "BYTES", help_heading = "Limits")]
    pub(crate) max_buffered_bytes: usize,
    /// Longest time for a request's header, and longest pause in its body, in seconds
    ///
    /// The body that a gateway hands over counts: one that drips gets 408 and gives its place among
    /// --max-requests back. What is sent earns more time, at 4096 bytes per second.
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) read_timeout: Duration,
    /// Time for running requests to finish after SIGTERM, in seconds
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS", help_heading = "Limits")]
    pub(crate) shutdown_grace: Duration,
    #[command(flatten)]
    pub(crate) tracing: TracingArgs,
    /// Seed of the router's draws among equals
    #[arg(long, default_value_t = 42, help_heading = "General")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) general: GeneralArgs,
}

/// A priority under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objective {
    pub(crate) name: String,
    pub(crate) priority: i32,
}

fn objective(text: &str) -> anyhow::Result<Objective> {
    let parts = text.rsplit_once('=');
    let (name, priority) = parts.context("expected NAME=PRIORITY")?;
    let priority = priority.trim().parse();
    Ok(Objective {
        name: name.trim().to_owned(),
        priority: priority.context("the priority must be a whole number")?,
    })
}
