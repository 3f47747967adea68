//! Checkpoints of FP8 on the twin: exactly, and as a device stores them.

use std::path::Path;

use checkpoint::Checkpoint;
use cuda::weights::{CacheDtype, bytes_of};
use cuda::{HostOps, LoadedWeights, Model, Ops, Storage};
use llama::Isa;

use crate::fp8_folder::{Scheme, write};
use crate::{golden, logits, small};

const MODELS: [&str; 2] = ["llama-gqa", "qwen2"];

fn prompt() -> Vec<u32> {
    (0..40).map(|at| at * 37 % 120).collect()
}

fn found(folder: &Path, storage: Storage) -> Vec<Vec<f32>> {
    let mut ops = HostOps::new(256 << 20);
    let checkpoint = Checkpoint::open(folder).unwrap();
    let before = ops.free_bytes().unwrap();
    let weights = LoadedWeights::load(&mut ops, &checkpoint, storage, &mut |_| ()).unwrap();
    let taken = before - ops.free_bytes().unwrap();
    assert_eq!(taken, bytes_of(checkpoint.config(), storage));
    let mut model = Model::new(ops, &weights, small(8)).unwrap();
    logits(&mut model, &prompt(), &[3, 7], 256)
}

/// What the CPU's engine says of the same files.
fn on_the_cpu(folder: &Path) -> Vec<Vec<f32>> {
    let checkpoint = Checkpoint::open(folder).unwrap();
    let weights = llama::LoadedWeights::load(&checkpoint, &mut |_| ()).unwrap();
    let options = llama::ModelOptions {
        block_size: 32,
        blocks: 2,
        step_tokens: 64,
        outputs: 64,
        context: 64,
        threads: 1,
        isa: Isa::detect(),
        taps: Vec::new(),
    };
    let mut model = llama::Model::new(&weights, options).unwrap();
    let mut plan = llama::Plan::new(32);
    plan.push(prompt(), 0, 0..2, prompt().len());
    model.forward(&plan);
    let outputs = 0..prompt().len();
    outputs
        .map(|output| model.logits(output).to_vec())
        .collect()
}

/// The largest difference, of the largest logit of its row.
fn worst(expected: &[Vec<f32>], found: &[Vec<f32>]) -> f32 {
    let rows = expected.iter().zip(found);
    let errors = rows.flat_map(|(expected, found)| {
        let size = expected
            .iter()
            .fold(0.0f32, |size, logit| size.max(logit.abs()));
        let pairs = expected.iter().zip(found);
        pairs.map(move |(one, other)| (one - other).abs() / size)
    });
    errors.fold(0.0, f32::max)
}

/// The root mean square of differences, of that of the logits.
fn deviation(expected: &[Vec<f32>], found: &[Vec<f32>]) -> f64 {
    let pairs = expected.iter().flatten().zip(found.iter().flatten());
    let (mut errors, mut sizes) = (0.0, 0.0);
    for (one, other) in pairs {
        errors += f64::from(one - other).powi(2);
        sizes += f64::from(*one).powi(2);
    }
    f64::sqrt(errors / sizes)
}

#[test]
fn the_exact_twin_says_what_the_cpu_says_of_fp8() {
    for name in MODELS {
        for scheme in Scheme::ALL {
            let folders = write(&golden(name), scheme, "exact");
            let expected = on_the_cpu(&folders.fp8);
            let found = found(&folders.fp8, Storage::Exact);
            let worst = worst(&expected, &found);
            println!("{name}, {scheme:?}: off by at most {worst:e} of the largest logit");
            assert!(worst < 1e-4, "{name}, {scheme:?}: {worst}");
            for (one, other) in expected.iter().zip(&found) {
                assert_eq!(sampling::likeliest(one), sampling::likeliest(other));
            }
        }
    }
}

/// As near as the tests of golden values ask. A scale of the wrong tensor, or none for keys and
/// values, which FP8 then cannot hold, is far from that.
#[test]
fn what_a_device_stores_of_fp8_is_near() {
    let (bf16, fp8) = (CacheDtype::Bf16, CacheDtype::Fp8);
    for name in MODELS {
        for scheme in Scheme::ALL {
            let folders = write(&golden(name), scheme, "stored");
            let expected = found(&folders.plain, Storage::Exact);
            for (storage, most) in [
                (Storage::Bf16 { cache: bf16 }, 0.03),
                (Storage::Bf16 { cache: fp8 }, 0.2),
                (Storage::Fp8 { cache: bf16 }, 0.35),
                (Storage::Fp8 { cache: fp8 }, 0.4),
            ] {
                let deviation = deviation(&expected, &found(&folders.fp8, storage));
                println!("{name}, {scheme:?}, {storage:?}: {deviation:.4}");
                assert!(
                    deviation < most,
                    "{name}, {scheme:?}, {storage:?}: {deviation}"
                );
            }
        }
    }
}

/// Their own codes and scales lose nothing; numbers of F32 are rounded.
#[test]
fn fp8_weights_stay_what_they_are() {
    let storage = Storage::Fp8 {
        cache: CacheDtype::Bf16,
    };
    for name in MODELS {
        let folders = write(&golden(name), Scheme::Tensor, "kept");
        let expected = found(&folders.plain, Storage::Exact);
        let kept = deviation(&expected, &found(&folders.fp8, storage));
        let rounded = deviation(&expected, &found(&folders.plain, storage));
        println!("{name}: {kept:.4} kept, {rounded:.4} rounded");
        assert!(kept < 0.9 * rounded, "{name}: {kept}, {rounded}");
    }
}
