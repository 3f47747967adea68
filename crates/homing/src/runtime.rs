//! What the commands that serve begin with: a log on standard error and a runtime of their own.

use std::env;
use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use tracing_subscriber::EnvFilter;

/// Runs to the end. `log` is what `--log` says.
#[expect(
    clippy::disallowed_methods,
    reason = "this crate is the reader of the environment"
)]
pub(crate) fn run<F>(log: &str, work: F) -> anyhow::Result<()>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let filter = EnvFilter::try_new(log).context("--log")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(wants_colour(
            io::stderr().is_terminal(),
            env::var("NO_COLOR").ok().as_deref(),
        ))
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(Box::pin(work))
}

/// Files and collectors of logs would keep the escape sequences.
fn wants_colour(terminal: bool, no_color: Option<&str>) -> bool {
    terminal && no_color.is_none_or(str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_people_who_did_not_refuse_them() {
        for (terminal, no_color, wants) in [
            (true, None, true),
            (true, Some(""), true),
            (true, Some("1"), false),
            (false, None, false),
            (false, Some(""), false),
        ] {
            assert_eq!(
                wants_colour(terminal, no_color),
                wants,
                "{terminal} {no_color:?}"
            );
        }
    }
}
