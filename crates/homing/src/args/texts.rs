//! Options of what conversations are about, for all that produce load.

use clap::Args;

#[derive(Clone, Debug, Args)]
pub(crate) struct TextArgs {
    /// Folder of text files to begin conversations with, or s3://bucket/folder, instead of
    /// the built-in articles
    ///
    /// Files that are empty, larger than 4 MiB or not text are skipped with a warning. A bucket is
    /// read with the usual variables: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION,
    /// AWS_ENDPOINT_URL for servers other than Amazon's, AWS_ALLOW_HTTP=true if that is http,
    /// AWS_SKIP_SIGNATURE=true for public buckets.
    #[arg(long, value_name = "PLACE", help_heading = "Text")]
    pub(crate) corpus: Option<String>,
    /// Cut every text at this many characters, at the end of a paragraph
    #[arg(long, value_name = "CHARACTERS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Text")]
    pub(crate) text_limit: Option<u32>,
    /// Server whose model writes the users' questions; by default they are built in
    ///
    /// Its API key is taken from HOMING_USER_MODEL_API_KEY. If it does not answer within 30 s,
    /// a built-in question is asked and counted.
    #[arg(long, value_name = "URL", help_heading = "Text")]
    pub(crate) user_model: Option<String>,
    /// Model to request there; by default the first that it lists
    ///
    /// With it, load may start before that server does.
    #[arg(
        long,
        value_name = "MODEL",
        requires = "user_model",
        help_heading = "Text"
    )]
    pub(crate) user_model_name: Option<String>,
}
