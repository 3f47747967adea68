//! Values that come only from the environment, such as keys: every user of the machine can read
//! a command line.

use anyhow::Context as _;

/// The value of a variable that an option names.
#[expect(
    clippy::disallowed_methods,
    reason = "this crate is the reader of the environment"
)]
pub(crate) fn secret(name: &str) -> anyhow::Result<String> {
    std::env::var(name).with_context(|| format!("the environment variable {name}"))
}
