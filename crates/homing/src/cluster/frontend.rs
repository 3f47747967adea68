//! `homing frontend`: the OpenAI-compatible server over workers on other machines.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use contract::{Clock, FrontendId, Hashing, ModelName, Visitors};
use engine::sim::Profile;
use frontend::{Access, FaultLimits, Frontend, FrontendConfig, KeyRing, Parts};
use router::{Router, RouterConfig};
use tasks::Tasks;
use telemetry::{Registry, catalog};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transport::roster;

use super::draw_id;
use super::keys::KeyFile;
use super::membership::{self, Place};
use crate::args::FrontendArgs;
use crate::demo::StopSignals;
use crate::{backend, print, runtime};

pub(crate) fn run(args: FrontendArgs) -> anyhow::Result<()> {
    runtime::run(&args.general.log.clone(), serve(args))
}

/// What is served, as the flags say or as the default profile has it.
pub(super) struct Served {
    pub(super) model: ModelName,
    pub(super) block_size: u32,
    pub(super) max_context_tokens: u32,
    pub(super) hashing: Hashing,
}

async fn serve(args: FrontendArgs) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    membership::check(&args)?;
    let address = SocketAddr::new(args.host, args.http_port);
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address} (--http-port; 0 picks a free port)")
    })?;
    let served = served(&args)?;
    let access = access(&args);
    let tasks = Tasks::new();
    let frontend = start(&args, &served, access.clone(), &tasks).await?;
    greet(&args, &served, &access, listener.local_addr()?);
    let drain = CancellationToken::new();
    let keys = args.api_key_file.is_some();
    let visitors = Visitors::new(args.host.is_loopback(), keys, &args.allowed_hosts);
    tasks.spawn(frontend::serve(
        listener,
        frontend.service(),
        args.limits.listening(visitors),
        drain.clone(),
    ));
    signals.next().await;
    print::line(format_args!(
        "finishing {} running request(s) ...",
        frontend.in_flight()
    ));
    frontend.close();
    drain.cancel();
    let finished = async {
        frontend.idle().await;
        tasks.finish().await;
    };
    tokio::select! {
        () = finished => {}
        () = tokio::time::sleep(args.limits.shutdown_grace) => {
            print::line(format_args!("gave up on {} request(s)", frontend.in_flight()));
        }
        () = signals.next() => {}
    }
    Ok(())
}

async fn start(
    args: &FrontendArgs,
    served: &Served,
    access: Access,
    tasks: &Tasks,
) -> anyhow::Result<Frontend> {
    let clock = Clock::start();
    let registry = Registry::new();
    registry
        .gauge(&catalog::BUILD_INFO, &[env!("CARGO_PKG_VERSION")])
        .set(1.0);
    let id = FrontendId(draw_id());
    let router = RouterConfig {
        hashing: served.hashing,
        ..args.routing.config(args.seed, served.block_size)?
    };
    let preprocessor = backend::preprocessor(&args.model, served.max_context_tokens)?;
    let tokenizer = Arc::clone(preprocessor.tokenizer());
    let parts = Parts {
        model: served.model.clone(),
        preprocessor,
        router: Router::new(router, &registry, clock),
        registry: registry.clone(),
        clock,
        id,
        fleet_commands: None,
    };
    let config = FrontendConfig {
        max_requests: args.limits.max_requests,
        max_body_bytes: args.limits.max_body_bytes,
        max_buffered_bytes: args.limits.max_buffered_bytes,
        max_queue_wait: Some(args.routing.max_queue_wait),
        trust_priority: args.routing.trust_priority_header,
        access,
        api_keys: api_keys(args, tasks)?,
        block_size: served.block_size as usize,
        hashing: served.hashing,
        faults: FaultLimits {
            migrations: args.migration_limit,
            first_token_timeout: args.first_token_timeout,
            stall_timeout: args.stall_timeout,
        },
        slow_reader_timeout: args.limits.slow_reader_timeout,
    };
    let (roster, changes) = roster();
    let frontend = Frontend::start(config, parts, changes, tasks);
    let place = Place {
        roster,
        registry,
        clock,
        frontend: id,
        tokenizer,
    };
    membership::follow(args, served, place, tasks).await?;
    Ok(frontend)
}

fn served(args: &FrontendArgs) -> anyhow::Result<Served> {
    let profile = Profile::named(engine::sim::PUBLISHED_PROFILE)?;
    Ok(Served {
        model: backend::model_name(&args.model)?.unwrap_or_else(|| profile.model.clone()),
        block_size: args.kv_cache_block_size.unwrap_or(profile.block_size),
        max_context_tokens: args
            .max_context_tokens
            .unwrap_or(profile.max_context_tokens),
        hashing: Hashing {
            lookahead: args.kv_hash_lookahead,
            ..Hashing::default()
        },
    })
}

/// The keys of the file, which is followed from now on.
fn api_keys(args: &FrontendArgs, tasks: &Tasks) -> anyhow::Result<Option<KeyRing>> {
    let Some(path) = &args.api_key_file else {
        return Ok(None);
    };
    let file = KeyFile::open(path)?;
    let ring = file.ring.clone();
    tasks.spawn(file.follow(tasks.stop.clone()));
    Ok(Some(ring))
}

/// Whoever can reach a loopback listener may change things, unless clients must have keys: then
/// a reverse proxy may stand before it. Otherwise a token is needed.
fn access(args: &FrontendArgs) -> Access {
    match &args.control_token {
        Some(token) => Access::Token(token.clone()),
        None if args.host.is_loopback() && args.api_key_file.is_none() => Access::Open,
        None => Access::Token(frontend::random_token()),
    }
}

fn greet(args: &FrontendArgs, served: &Served, access: &Access, api: SocketAddr) {
    print::line(format_args!(
        "Homing {} serves {}, router {}\n\n  api      http://{api}/v1\n  metrics  http://{api}/metrics\n  workers  {}",
        env!("CARGO_PKG_VERSION"),
        served.model,
        args.routing.router_mode,
        membership::described(args),
    ));
    if let (Access::Token(token), None) = (access, &args.control_token) {
        print::line(format_args!(
            "  control token (made up for this run): {token}"
        ));
    }
    print::line(format_args!("\nCtrl-C stops it."));
}
