//! How fast a model computes here: prefill, decode alone and in company, what checking guesses
//! costs, memory.
//!
//! `cargo run --release -p llama --example speed -- MODEL [THREADS]`
//!
//! Prints one line of JSON, so that `cargo xtask bench llama` can set others beside it.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool for the terminal"
)]

use std::hint::black_box;

use checkpoint::Checkpoint;
use contract::{Clock, TokenId};
use llama::{Isa, LoadedWeights, Model, ModelOptions, Plan};

const PROMPT: usize = 512;
const DECODED: usize = 128;
/// Tokens of one sequence that a step computes with the distribution after each, as it does to
/// check guesses: from one up to so many.
const CHECKED: usize = 8;
const BLOCK: usize = 32;
/// The best counts: others on the machine only ever make it slower.
const ROUNDS: usize = 3;
/// Far more than a processor's caches hold.
const LARGE: usize = 1 << 30;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("the path of a model");
    let threads = arguments.next().map_or(2, |text| text.parse().unwrap());
    let options = ModelOptions {
        block_size: BLOCK,
        blocks: 16 * 1024 / BLOCK,
        step_tokens: PROMPT,
        outputs: 16,
        context: 2048,
        threads,
        isa: Isa::detect(),
        taps: Vec::new(),
    };
    let clock = Clock::start();
    let checkpoint = Checkpoint::open(path.as_ref()).unwrap();
    let weights = LoadedWeights::load(&checkpoint, &mut |_| ()).unwrap();
    let mut model = Model::new(&weights, options).unwrap();
    let loaded = (clock.now() - contract::Moment::ZERO).as_secs_f64();
    let prefill = best(|| prefill(&mut model, &clock));
    let decode_1 = best(|| decode(&mut model, &clock, 1));
    let decode_8 = best(|| decode(&mut model, &clock, 8));
    let checks: Vec<String> = (1..=CHECKED)
        .map(|tokens| check(&mut model, &clock, tokens))
        .map(|seconds| format!("{:.2}", seconds * 1e3))
        .collect();
    // A few matrices of each layer and the vocabulary's: all that a token needs is read once.
    let read = model.weight_bytes() as f64 * decode_1 / 1e9;
    let near = best(|| read_speed(&clock, model.weight_bytes(), threads));
    let far = best(|| read_speed(&clock, LARGE, threads));
    println!(
        "{{\"what\": \"homing ({}, {threads} threads)\", \"load_s\": {loaded:.2}, \"prefill\": {prefill:.1}, \
         \"decode_1\": {decode_1:.1}, \"decode_8\": {decode_8:.1}, \"check_ms\": [{}], \"rss_mb\": {:.0}, \
         \"weights_mb\": {:.0}, \"weights_read_gb_s\": {read:.1}, \
         \"machine_reads_as_much_gb_s\": {near:.1}, \"machine_reads_gb_s\": {far:.1}}}",
        Isa::detect().as_str(),
        checks.join(", "),
        resident() / 1e6,
        model.weight_bytes() as f64 / 1e6,
    );
}

fn best(mut measure: impl FnMut() -> f64) -> f64 {
    (0..ROUNDS).map(|_| measure()).fold(0.0, f64::max)
}

fn blocks(sequence: usize) -> std::ops::Range<u32> {
    (sequence * 64) as u32..(sequence * 64 + 64) as u32
}

fn token(position: usize) -> TokenId {
    (position * 37 % 4000) as TokenId
}

/// Tokens of a prompt a second.
fn prefill(model: &mut Model, clock: &Clock) -> f64 {
    let began = clock.now();
    let mut plan = Plan::new(BLOCK);
    plan.push((0..PROMPT).map(token), 0, blocks(0), 1);
    model.forward(&plan);
    PROMPT as f64 / (clock.now() - began).as_secs_f64()
}

/// Tokens of all sequences together a second.
fn decode(model: &mut Model, clock: &Clock, batch: usize) -> f64 {
    let began = clock.now();
    let mut plan = Plan::new(BLOCK);
    for position in 0..DECODED {
        plan.clear();
        for sequence in 0..batch {
            plan.push([token(position)], position, blocks(sequence), 1);
        }
        model.forward(&plan);
    }
    (DECODED * batch) as f64 / (clock.now() - began).as_secs_f64()
}

/// Seconds of a step that checks: the median, at the end of a short text.
fn check(model: &mut Model, clock: &Clock, tokens: usize) -> f64 {
    let mut plan = Plan::new(BLOCK);
    let mut times: Vec<f64> = (0..15)
        .map(|_| {
            plan.clear();
            plan.push((0..tokens).map(token), DECODED, blocks(0), tokens);
            let began = clock.now();
            model.forward(&plan);
            (clock.now() - began).as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Gigabytes a second that this machine reads from memory of that size.
fn read_speed(clock: &Clock, bytes: usize, threads: usize) -> f64 {
    const PASSES: usize = 4;
    let memory = vec![1u64; bytes / 8];
    let began = clock.now();
    std::thread::scope(|scope| {
        for part in memory.chunks(memory.len().div_ceil(threads)) {
            scope.spawn(move || {
                for _ in 0..PASSES {
                    let sum = part.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
                    black_box(sum);
                }
            });
        }
    });
    (PASSES * bytes) as f64 / 1e9 / (clock.now() - began).as_secs_f64()
}

/// Bytes of this process in memory, as Linux tells it.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}
