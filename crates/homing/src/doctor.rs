//! `homing doctor`: examines servers of other engines before they get traffic.

use std::process::ExitCode;
use std::sync::Arc;

use adapters::{EngineSettings, Timing, Tokenize};
use anyhow::Context as _;
use contract::{BlockFormat, Clock, ModelName};
use preprocess::Specials;

use crate::args::{DoctorArgs, ModelArgs};
use crate::cluster::sample_prompt;
use crate::{environment, print, runtime};

pub(crate) fn run(args: DoctorArgs) -> ExitCode {
    let mut good = true;
    let examined = runtime::run("warn", async { examine(args, &mut good).await });
    match examined {
        Ok(()) if good => ExitCode::SUCCESS,
        Ok(()) => ExitCode::FAILURE,
        Err(error) => {
            print::error(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn examine(args: DoctorArgs, good: &mut bool) -> anyhow::Result<()> {
    let model = ModelArgs::of_path(&args.model_path).resolve()?;
    let preprocessor = model.preprocessor(u32::MAX)?;
    let api_key = match &args.upstream_api_key_env {
        Some(name) => Some(environment::secret(name).context("--upstream-api-key-env")?),
        None => None,
    };
    let tokenizer = Arc::clone(preprocessor.tokenizer());
    let settings = EngineSettings {
        model: match model.served_name()? {
            Some(name) => name,
            None => model.folder_name().unwrap_or_else(|_| ModelName::new("")),
        },
        blocks: BlockFormat::new(args.kv_cache_block_size),
        max_context_tokens: u32::MAX,
        clock: Clock::start(),
        tokenize: Tokenize::new(move |text| {
            tokenizer.encode(text, Specials::Plain).unwrap_or_default()
        }),
        sample_prompt: sample_prompt(&preprocessor),
        api_key,
        timing: Timing::default(),
        shared: None,
    };
    for spec in &args.upstreams {
        print::line(format_args!("{} at {}", spec.kind, spec.url));
        let unique = uuid::Uuid::new_v4().as_u64_pair().0;
        let findings = adapters::doctor::examine(spec, &settings, unique).await?;
        print::line(format_args!("{findings}"));
        *good &= findings.are_good();
    }
    let verdict = match *good {
        true => "Everything that was needed is in order.",
        false => "Points marked FAILED have to be put right first.",
    };
    print::line(format_args!("{verdict}"));
    Ok(())
}
