//! The same system on several machines: `homing frontend` and `homing worker`.

pub(crate) mod frontend;
mod membership;
pub(crate) mod worker;

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// Logs to standard error and runs to the end on a runtime of its own.
fn run<F>(log: &str, work: F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let filter = EnvFilter::try_new(log).context("--log")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(work))
}

/// A number that nobody else has drawn. Of 53 bits, so that it survives programs that take
/// every number for floating point.
fn draw_id() -> u64 {
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    (high ^ low) >> 11
}
