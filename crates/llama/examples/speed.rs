//! How fast a model computes here: prefill, and decode alone and in company.
//!
//! `cargo run --release -p llama --example speed -- MODEL [THREADS]`

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool for the terminal"
)]

use contract::Clock;
use llama::{Checkpoint, Isa, LoadedWeights, Model, ModelOptions, Plan};

const PROMPT: usize = 512;
const DECODED: usize = 128;
const BLOCK: usize = 32;
const ROUNDS: usize = 3;

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
    let began = clock.now();
    let checkpoint = Checkpoint::open(path.as_ref()).unwrap();
    let weights = LoadedWeights::load(&checkpoint, &mut |_| ()).unwrap();
    let mut model = Model::new(&weights, options).unwrap();
    println!(
        "{}: {} MB of weights in memory, loaded in {:.1} s, {} with {threads} threads",
        model.config().name,
        model.weight_bytes() / 1_000_000,
        (clock.now() - began).as_secs_f64(),
        Isa::detect().as_str(),
    );
    let tokens =
        |seed: usize| (0..PROMPT as u32).map(move |id| (id * 37 + seed as u32 * 11) % 4000);
    let blocks = |sequence: usize| (sequence * 64) as u32..(sequence * 64 + 64) as u32;
    let mut plan = Plan::new(BLOCK);
    for round in 0..ROUNDS {
        let began = clock.now();
        plan.clear();
        plan.push(tokens(round), 0, blocks(0), 1);
        model.forward(&plan);
        println!(
            "prefill of {PROMPT}: {:.0} tokens/s",
            PROMPT as f64 / (clock.now() - began).as_secs_f64()
        );
    }
    for batch in [1, 2, 4, 8] {
        for _ in 0..ROUNDS {
            let began = clock.now();
            for position in 0..DECODED {
                plan.clear();
                for sequence in 0..batch {
                    plan.push([position as u32 * 7 % 4000], position, blocks(sequence), 1);
                }
                model.forward(&plan);
            }
            let seconds = (clock.now() - began).as_secs_f64();
            println!(
                "decode at batch {batch}: {:.1} tokens/s, {:.2} ms a step",
                (DECODED * batch) as f64 / seconds,
                1e3 * seconds / DECODED as f64,
            );
        }
    }
}
