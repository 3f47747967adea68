//! Whole models on the device: golden values of transformers, and the engine that computes on the CPU.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use checkpoint::Checkpoint;
use cuda::staging::{StagedRow, Staging};
use cuda::weights::CacheDtype;
use cuda::{HostOps, LoadedWeights, Model, ModelOptions, Ops, Storage};
use llama::{Isa, Plan};
use serde_json::{Value, json};

use crate::say;

type Checked<T> = Result<T, Box<dyn Error>>;

/// A token less likely than the one chosen by less than this is as good.
const NEAR: f32 = 0.2;
/// Of the longest text, in one piece.
const CONTEXT: usize = 1024;
/// Tokens of a text of which perplexity is measured, each on its own.
const WINDOW: usize = 512;
const BLOCK: usize = cuda::ops::PAGE_TOKENS;
/// Memory for a twin of a tiny model.
const TWIN_BYTES: usize = 1 << 30;
const fn bf16(cache: CacheDtype) -> Storage {
    Storage::Bf16 { cache }
}

const STORAGES: [Storage; 4] = [
    bf16(CacheDtype::Bf16),
    bf16(CacheDtype::Fp8),
    Storage::Fp8 {
        cache: CacheDtype::Bf16,
    },
    Storage::Fp8 {
        cache: CacheDtype::Fp8,
    },
];

/// What computes distributions of one sequence at a time.
trait Engine {
    /// Of the last `outputs` of the tokens that come after `start` others.
    fn logits(&mut self, tokens: &[u32], start: usize, outputs: usize) -> Checked<Vec<Vec<f32>>>;
}

struct Device<O: Ops>(Model<O>);

impl<O: Ops> Device<O> {
    fn load(mut ops: O, path: &Path, storage: Storage) -> Checked<Self> {
        let checkpoint = Checkpoint::open(path)?;
        let weights = LoadedWeights::load(&mut ops, &checkpoint, storage, &mut |_| ())?;
        let context = weights.config().context.min(CONTEXT);
        let options = ModelOptions {
            slots: 4,
            step_tokens: WINDOW,
            outputs: WINDOW,
            context,
            blocks: 2 * CONTEXT / BLOCK,
        };
        Ok(Self(Model::new(ops, &weights, options)?))
    }
}

/// The blocks of a sequence of so many tokens: backwards from the context's last.
fn blocks(context: usize, tokens: usize) -> Vec<u32> {
    let count = context.div_ceil(BLOCK) as u32;
    let used = tokens.div_ceil(BLOCK) as u32;
    (0..used).map(|block| count - 1 - block).collect()
}

impl<O: Ops> Engine for Device<O> {
    fn logits(&mut self, tokens: &[u32], start: usize, outputs: usize) -> Checked<Vec<Vec<f32>>> {
        let (context, vocabulary) = (self.0.options().context, self.0.config().vocabulary);
        let blocks = blocks(context, start + tokens.len());
        let mut staging = Staging::default();
        let row = StagedRow {
            tokens,
            drafts: &[],
            start,
            blocks: &blocks,
            outputs,
            draws: &[],
        };
        staging.fill(&[row], context);
        self.0.forward(&staging)?;
        let mut numbers = Vec::new();
        self.0
            .read_logits(staging.first_output(0), outputs, &mut numbers)?;
        Ok(numbers
            .chunks_exact(vocabulary)
            .map(<[f32]>::to_vec)
            .collect())
    }
}

struct Cpu(llama::Model);

impl Cpu {
    fn load(path: &Path) -> Checked<Self> {
        let weights = llama::LoadedWeights::load(&Checkpoint::open(path)?, &mut |_| ())?;
        let options = llama::ModelOptions {
            block_size: BLOCK,
            blocks: CONTEXT / BLOCK,
            step_tokens: WINDOW,
            outputs: WINDOW,
            context: CONTEXT,
            threads: std::thread::available_parallelism()?.get().min(16),
            isa: Isa::detect(),
            taps: Vec::new(),
        };
        Ok(Self(llama::Model::new(&weights, options)?))
    }
}

impl Engine for Cpu {
    fn logits(&mut self, tokens: &[u32], start: usize, outputs: usize) -> Checked<Vec<Vec<f32>>> {
        let mut plan = Plan::new(BLOCK);
        let blocks = blocks(CONTEXT, start + tokens.len());
        plan.push(tokens.iter().copied(), start, blocks, outputs);
        self.0.forward(&plan);
        Ok((0..outputs)
            .map(|output| self.0.logits(output).to_vec())
            .collect())
    }
}

/// Logits of tiny models, one in each folder of `folder`: no further from the twin's than half of what
/// storing numbers like this costs, which is how far the twin is from transformers. Where one number
/// rounds up and its twin down, all that follows differs. The limit is relative: it says that the device
/// computes what the twin does, and tests on the host say what the twin is worth.
pub(crate) fn goldens<O: Ops>(
    mut open: impl FnMut() -> Checked<O>,
    folder: &Path,
) -> Checked<bool> {
    let (mut all, mut compared) = (true, 0);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Checked<_>>()?;
    paths.sort();
    for path in paths {
        let Ok(text) = fs::read_to_string(path.join("golden.json")) else {
            continue;
        };
        let golden: Value = serde_json::from_str(&text)?;
        if golden["positions"].is_null() {
            continue; // a head that drafts, which is no model
        }
        for storage in STORAGES {
            let found = of_positions(Device::load(open()?, &path, storage)?, &golden)?;
            let twin = Device::load(HostOps::new(TWIN_BYTES), &path, storage)?;
            let twin = of_positions(twin, &golden)?;
            let rows = golden["logits"].as_array().into_iter().flatten();
            let transformers: Vec<Vec<f32>> = rows.map(floats).collect();
            let error = worst(&found, &twin);
            let limit = worst(&twin, &transformers) / 2.0;
            let is_right = error <= limit && !found.is_empty() && !transformers.is_empty();
            all &= is_right;
            compared += 1;
            say(&json!({
                "golden": path.file_name().map(|name| name.to_string_lossy()),
                "storage": format!("{storage:?}"),
                "from_twin": error,
                "limit": limit,
                "ok": is_right,
                "from_transformers": worst(&found, &transformers),
                "twin_from_transformers": 2.0 * limit,
            }));
        }
    }
    if compared == 0 {
        let folder = folder.display();
        return Err(format!("{folder} has no golden values: name a folder of folders").into());
    }
    Ok(all)
}

/// The distributions that a golden file has.
fn of_positions(mut engine: impl Engine, golden: &Value) -> Checked<Vec<Vec<f32>>> {
    let prompt = numbers(&golden["prompt"]);
    let found = engine.logits(&prompt, 0, prompt.len())?;
    let positions = numbers(&golden["positions"]);
    Ok(positions
        .iter()
        .map(|position| found[*position as usize].clone())
        .collect())
}

/// The largest difference, of the largest logit of its row; infinite where there is no number.
fn worst(found: &[Vec<f32>], expected: &[Vec<f32>]) -> f32 {
    let mut worst = 0f32;
    for (found, expected) in found.iter().zip(expected) {
        let size = expected
            .iter()
            .fold(0.0f32, |size, logit| size.max(logit.abs()));
        for (found, expected) in found.iter().zip(expected) {
            let error = (found - expected).abs() / size;
            worst = if error.is_nan() {
                f32::INFINITY
            } else {
                worst.max(error)
            };
        }
    }
    worst
}

fn floats(list: &Value) -> Vec<f32> {
    let numbers = list.as_array().into_iter().flatten();
    numbers
        .filter_map(|number| number.as_f64().map(|number| number as f32))
        .collect()
}

fn numbers(list: &Value) -> Vec<u32> {
    let numbers = list.as_array().into_iter().flatten();
    numbers
        .filter_map(|number| number.as_u64().map(|number| number as u32))
        .collect()
}

/// Texts of a model on the device beside those of the CPU's engine, and perplexity of both.
pub(crate) fn texts<O: Ops>(
    mut open: impl FnMut() -> Checked<O>,
    path: &Path,
    prompts: &Path,
    corpus: Option<&Path>,
) -> Checked<bool> {
    let prompts: Value = serde_json::from_str(&fs::read_to_string(prompts)?)?;
    let cases: Vec<_> = prompts["cases"].as_array().into_iter().flatten().collect();
    let mut cpu = Cpu::load(path)?;
    let mut expected = Vec::new();
    for case in &cases {
        let count = numbers(&case["greedy"]).len();
        expected.push(greedy(&mut cpu, &numbers(&case["prompt"]), count)?);
    }
    let corpus = corpus.map(fs::read_to_string).transpose()?;
    let corpus = corpus
        .map(|text| serde_json::from_str(&text))
        .transpose()?
        .map_or(Vec::new(), |list| numbers(&list));
    say(
        &json!({ "engine": "cpu", "perplexity": perplexity(&mut cpu, &corpus)?, "of_tokens": corpus.len() }),
    );
    let mut all = true;
    for storage in STORAGES {
        let mut device = Device::load(open()?, path, storage)?;
        let (mut same, mut differences) = (0, Vec::new());
        for (case, expected) in cases.iter().zip(&expected) {
            match difference(&mut device, &numbers(&case["prompt"]), expected)? {
                Some(difference) => differences.push(difference),
                None => same += 1,
            }
        }
        let far = differences
            .iter()
            .filter(|(_, margin)| *margin >= NEAR)
            .count();
        // FP8 is another model, nearly: its differences are only reported.
        all &= far == 0 || storage != STORAGES[0];
        say(
            &json!({ "storage": format!("{storage:?}"), "texts": cases.len(), "same": same, "first_differences": differences,
            "not_near": far, "perplexity": perplexity(&mut device, &corpus)? }),
        );
    }
    Ok(all)
}

/// Tokens, and by how much each was likelier than every other.
fn greedy(engine: &mut impl Engine, prompt: &[u32], count: usize) -> Checked<Vec<(u32, Vec<f32>)>> {
    let mut said = Vec::new();
    let (mut next, mut start) = (prompt.to_vec(), 0);
    for _ in 0..count {
        let logits = engine.logits(&next, start, 1)?.remove(0);
        start += next.len();
        let token = sampling::likeliest(&logits) as u32;
        said.push((token, logits));
        next = vec![token];
    }
    Ok(said)
}

/// Where the engine's text first differs, and how much less likely its token is there by the other's
/// distribution.
fn difference(
    engine: &mut impl Engine,
    prompt: &[u32],
    expected: &[(u32, Vec<f32>)],
) -> Checked<Option<(usize, f32)>> {
    let said = greedy(engine, prompt, expected.len())?;
    let first = said
        .iter()
        .zip(expected)
        .position(|((said, _), (expected, _))| said != expected);
    Ok(first.map(|at| {
        let (token, logits) = &expected[at];
        (at, logits[*token as usize] - logits[said[at].0 as usize])
    }))
}

/// Of the tokens, in windows that begin anew.
fn perplexity(engine: &mut impl Engine, tokens: &[u32]) -> Checked<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for window in tokens.chunks_exact(WINDOW) {
        let logits = engine.logits(window, 0, window.len())?;
        for (logits, next) in logits.iter().zip(&window[1..]) {
            let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let total: f64 = logits
                .iter()
                .map(|logit| f64::from(logit - largest).exp())
                .sum();
            sum += total.ln() - f64::from(logits[*next as usize] - largest);
            count += 1;
        }
    }
    Ok((sum / f64::from(count.max(1))).exp())
}
