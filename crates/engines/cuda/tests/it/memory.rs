//! What is said of memory is what is taken.

use checkpoint::Checkpoint;
use cuda::weights::{CacheDtype, bytes_of};
use cuda::{HostOps, LoadedWeights, Model, ModelError, Ops, Storage};

use crate::{MODELS, golden, small};

const FP8: Storage = Storage::Fp8 {
    cache: CacheDtype::Fp8,
};

#[test]
fn weights_and_workspaces_take_what_is_said() {
    for name in MODELS {
        for storage in [Storage::Exact, FP8] {
            let mut ops = HostOps::new(1 << 30);
            let checkpoint = Checkpoint::open(&golden(name)).unwrap();
            let config = checkpoint.config();
            let weights = LoadedWeights::load(&mut ops, &checkpoint, storage, &mut |_| ()).unwrap();
            let after_weights = ops.free_bytes().unwrap();
            assert_eq!(
                (1 << 30) - after_weights,
                bytes_of(config, storage),
                "{name}"
            );
            let options = small(8);
            let block = cuda::cache::block_bytes(config, storage);
            let expected = Model::<HostOps>::workspace_bytes(config, storage, &options) + 8 * block;
            let model = Model::new(ops, &weights, options).unwrap();
            let taken = after_weights - model.ops().free_bytes().unwrap();
            assert_eq!(taken, expected, "{name}, {storage:?}");
        }
    }
}

#[test]
fn a_cache_holds_a_context_and_has_room() {
    let checkpoint = Checkpoint::open(&golden("llama-gqa")).unwrap();
    let refusal = |memory: usize, blocks: usize| {
        let mut ops = HostOps::new(memory);
        let weights = LoadedWeights::random(&mut ops, checkpoint.config(), FP8).unwrap();
        Model::new(ops, &weights, small(blocks))
            .map(|_| ())
            .unwrap_err()
    };
    assert_eq!(
        refusal(32 << 20, 7).to_string(),
        "there is memory for 224 tokens of keys and values, less than one context of 256"
    );
    let error = refusal(300 << 10, 8);
    assert!(matches!(error, ModelError::Ops(_)), "{error}");
}
