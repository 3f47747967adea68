//! A real model on an NVIDIA GPU, resolved.

use std::path::PathBuf;

use anyhow::bail;
use cuda::weights::CacheDtype;
use cuda::{Speculation, Storage};

use crate::args::{CacheDtypeChoice, EngineArgs, SpeculationChoice, WeightDtypeChoice};

/// What a GPU computes at once; more memory goes to sequences than to waiting ones.
const SLOTS: u32 = 64;
/// Prompts of this length and below take one step.
const STEP_TOKENS: u32 = 8192;

/// How workers compute a model on a GPU.
#[derive(Clone, Debug)]
pub(crate) struct CudaPlan {
    pub(crate) gpu: usize,
    /// Where its libraries are looked for first.
    pub(crate) libraries: Option<PathBuf>,
    pub(crate) slots: usize,
    /// What is free by default.
    pub(crate) kv_cache_mb: Option<usize>,
    pub(crate) context: Option<usize>,
    pub(crate) max_step_tokens: usize,
    weights: WeightDtypeChoice,
    cache: CacheDtype,
    /// Of the shape in `config.json` alone.
    pub(crate) random_weights: bool,
    pub(crate) speculation: Speculation,
    pub(crate) draft_tokens: usize,
}

impl CudaPlan {
    /// How a model is stored, which follows its files where no option says it.
    pub(crate) fn storage(&self, files_have_fp8: bool) -> Storage {
        let cache = self.cache;
        match (self.weights, files_have_fp8) {
            (WeightDtypeChoice::Fp8, _) | (WeightDtypeChoice::Auto, true) => Storage::Fp8 { cache },
            (WeightDtypeChoice::Bf16, _) | (WeightDtypeChoice::Auto, false) => {
                Storage::Bf16 { cache }
            }
        }
    }
}

impl EngineArgs {
    /// Options that only this engine has, and whether they are given.
    pub(super) fn cuda_options(&self) -> [(&'static str, bool); 5] {
        [
            ("--gpu", self.gpu.is_some()),
            (
                "--kv-cache-dtype",
                self.kv_cache_dtype != CacheDtypeChoice::Auto,
            ),
            (
                "--weight-dtype",
                self.weight_dtype != WeightDtypeChoice::Auto,
            ),
            ("--random-weights", self.random_weights),
            ("--cuda-libraries", self.cuda_libraries.is_some()),
        ]
    }

    pub(crate) fn cuda(&self) -> anyhow::Result<CudaPlan> {
        self.check_engine()?;
        if self.draft_model.is_some() {
            bail!("--engine cuda: --draft-model is not supported; --speculation ngram needs none");
        }
        let max_step_tokens = self.max_step_tokens.unwrap_or(STEP_TOKENS) as usize;
        if max_step_tokens > cuda::MOST_ROWS {
            bail!(
                "--engine cuda: --max-step-tokens {max_step_tokens} exceeds the {} that a step can have on a GPU; longer prompts take several steps",
                cuda::MOST_ROWS
            );
        }
        let cache = match self.kv_cache_dtype {
            CacheDtypeChoice::Auto | CacheDtypeChoice::Bf16 => CacheDtype::Bf16,
            CacheDtypeChoice::Fp8 => CacheDtype::Fp8,
        };
        Ok(CudaPlan {
            gpu: self.gpu.unwrap_or(0),
            libraries: self.cuda_libraries.clone(),
            slots: self.slots.unwrap_or(SLOTS) as usize,
            kv_cache_mb: self.kv_cache_mb,
            context: self.context,
            max_step_tokens,
            weights: self.weight_dtype,
            cache,
            random_weights: self.random_weights,
            speculation: match self.speculation {
                SpeculationChoice::None => Speculation::None,
                SpeculationChoice::Ngram => Speculation::Ngram,
                SpeculationChoice::Draft => unsupported("draft")?,
                SpeculationChoice::Eagle3 => unsupported("eagle3")?,
            },
            draft_tokens: self.draft_tokens as usize,
        })
    }
}

fn unsupported(speculation: &str) -> anyhow::Result<Speculation> {
    bail!(
        "--engine cuda: --speculation {speculation} is not supported; use none or ngram, or --engine llama"
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// A command with nothing but an engine.
    #[derive(Parser)]
    struct Engine {
        #[command(flatten)]
        args: EngineArgs,
    }

    fn args(options: &str) -> EngineArgs {
        let words = std::iter::once("homing").chain(options.split_whitespace());
        Engine::try_parse_from(words).unwrap().args
    }

    #[test]
    fn a_gpu_has_defaults_of_its_own() {
        let plan = args("--engine cuda").cuda().unwrap();
        assert_eq!((plan.gpu, plan.slots, plan.max_step_tokens), (0, 64, 8192));
        assert_eq!((plan.kv_cache_mb, plan.context), (None, None));
        let bf16 = Storage::Bf16 {
            cache: CacheDtype::Bf16,
        };
        assert_eq!((plan.storage(false), plan.random_weights), (bf16, false));
        let kept = Storage::Fp8 {
            cache: CacheDtype::Bf16,
        };
        assert_eq!(plan.storage(true), kept);
        let rounded = args("--engine cuda --weight-dtype bf16").cuda().unwrap();
        assert_eq!(rounded.storage(true), bf16);
        let plan = args("--engine llama").llama().unwrap();
        assert_eq!((plan.slots, plan.max_step_tokens), (8, 256));
        assert_eq!(plan.kv_cache_mb, 1024);
        let options = "--engine cuda --weight-dtype fp8 --kv-cache-dtype fp8 --gpu 3";
        let plan = args(options).cuda().unwrap();
        let fp8 = Storage::Fp8 {
            cache: CacheDtype::Fp8,
        };
        assert_eq!((plan.storage(false), plan.gpu), (fp8, 3));
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        let refusal = |options: &str| {
            let args = args(options);
            let (cuda, llama) = (args.cuda().map(|_| ()), args.llama().map(|_| ()));
            let refused = match args.engine {
                crate::args::EngineChoice::Cuda => cuda,
                crate::args::EngineChoice::Llama | crate::args::EngineChoice::Simulated => llama,
            };
            refused.unwrap_err().to_string()
        };
        for (options, expected) in [
            ("--engine llama --gpu 0", "--gpu is for --engine cuda"),
            ("--random-weights", "--random-weights is for --engine cuda"),
            (
                "--engine cuda --threads 2",
                "--threads is for --engine llama",
            ),
            (
                "--engine cuda --speculation eagle3",
                "--engine cuda: --speculation eagle3 is not supported; use none or ngram, or --engine llama",
            ),
            (
                "--engine cuda --max-step-tokens 65536",
                "--engine cuda: --max-step-tokens 65536 exceeds the 65535 that a step can have on a GPU; longer prompts take several steps",
            ),
        ] {
            assert_eq!(refusal(options), expected);
        }
    }
}
