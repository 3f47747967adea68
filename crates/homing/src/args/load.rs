//! Options of a load generator that a console starts and stops.

use clap::{Args, ValueEnum};

use super::TextArgs;

#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// Run without the load generator; send your own requests to the API
    #[arg(long, help_heading = "Load")]
    pub(crate) no_load: bool,
    /// Start load immediately; by default it starts from the console
    #[arg(long, help_heading = "Load")]
    pub(crate) autostart: bool,
    /// Send each text once before load starts, so that caches are warm in the first minute
    #[arg(long, conflicts_with = "no_load", help_heading = "Load")]
    pub(crate) warm: bool,
    /// Concurrent conversations; the console can change it; by default 60, or 4 with a real engine
    #[arg(long, help_heading = "Load", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(crate) concurrency: Option<u32>,
    /// Texts that conversations begin with: ten, all, unique
    ///
    /// ten takes the first ten built-in articles, all takes all of them, and unique also begins
    /// each conversation with a line of its own, so that none hits another's cache.
    #[arg(long, value_enum, default_value_t = StarterChoice::Ten, hide_possible_values = true, help_heading = "Load")]
    pub(crate) starters: StarterChoice,
    /// Longest answer, in tokens; the console can change it; by default 1024, or 96 with a real engine
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Load")]
    pub(crate) max_tokens: Option<u32>,
    #[command(flatten)]
    pub(crate) texts: TextArgs,
}

/// Texts that conversations begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StarterChoice {
    Ten,
    All,
    Unique,
}
