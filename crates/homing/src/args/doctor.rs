//! Options of `doctor`, given on the command line only.

use std::path::PathBuf;

use adapters::EngineSpec;
use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  homing doctor --upstream vllm=http://10.0.0.1:8000,events=tcp://10.0.0.1:5557,replay=tcp://10.0.0.1:5558 --model-path DIR
  homing doctor --upstream openai=http://127.0.0.1:8080 --model-path model.gguf";

#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// The server, as `homing frontend` takes it: KIND=URL[,OPTION=VALUE]; may be given repeatedly
    #[arg(
        long = "upstream",
        value_name = "KIND=URL[,OPTION=VALUE]",
        required = true
    )]
    pub(crate) upstreams: Vec<EngineSpec>,
    /// Folder or GGUF file with the tokenizer and the chat template of its model
    #[arg(long, value_name = "DIR")]
    pub(crate) model_path: PathBuf,
    /// Tokens per block, as the frontend will have them
    #[arg(long, value_name = "TOKENS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) kv_cache_block_size: u32,
    /// Environment variable with the API key that the server asks for
    #[arg(long, value_name = "NAME")]
    pub(crate) upstream_api_key_env: Option<String>,
}
