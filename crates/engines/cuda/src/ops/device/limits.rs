//! What the kernels can compute, and what memory they need for it beside a model's own.
//!
//! All of it follows from a model's shape, so that a model that cannot run is refused before its
//! weights are loaded, and without a device.

use checkpoint::ModelConfig;

use super::attention::{
    BLOCKS_EACH, DECODE_GROUP, HEAD_STEP, LARGEST_HEAD, PREFILL_ROWS, ROWS_AT_ONCE, SCRATCH_STEP,
    SPLITS_OF_MANY, has_room, parts_of,
};
use super::kernels::{FAST_HEADS, LARGEST_ROW};
use crate::gemm;
use crate::model::ModelOptions;
use crate::staging::padded;
use crate::weights::Storage;

/// Rows of a step are blocks in the second and third direction of a grid: CUDA has no more of them.
pub const MOST_ROWS: usize = 65_535;

/// Of any GPU of compute capability 9.0: the whole chip has 144, an H200 132.
const MULTIPROCESSORS: usize = 144;

/// Why no kernel computes a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    #[error(
        "heads of {size} components are not supported (a multiple of {HEAD_STEP}, at most {LARGEST_HEAD}): use --engine llama"
    )]
    Heads { size: usize },
    #[error("a {what} of {width} is not supported (at most {LARGEST_ROW}): use --engine llama")]
    Rows { what: &'static str, width: usize },
}

/// Whether there are kernels for all of a model.
pub fn supported(config: &ModelConfig) -> Result<(), Unsupported> {
    let size = config.head_size;
    if !size.is_multiple_of(HEAD_STEP) || size > LARGEST_HEAD {
        return Err(Unsupported::Heads { size });
    }
    let rows = [
        ("hidden size", config.hidden),
        ("feed-forward size", config.feed_forward),
        ("width of all heads", config.heads * size),
    ];
    match rows.into_iter().find(|(_, width)| *width > LARGEST_ROW) {
        Some((what, width)) => Err(Unsupported::Rows { what, width }),
        None => Ok(()),
    }
}

/// Whether attention has its fast kernels, for decoding and for prompts: else the kernel for any shape
/// computes it.
pub fn has_fast_attention(config: &ModelConfig, storage: Storage) -> bool {
    has_fast(config, storage, DECODE_GROUP) && has_fast(config, storage, PREFILL_ROWS)
}

fn has_fast(config: &ModelConfig, storage: Storage, largest_group: usize) -> bool {
    let group = config.heads / config.kv_heads;
    FAST_HEADS.contains(&config.head_size) && has_room(storage.cache(), group, largest_group)
}

/// Memory that a worker's device takes beside its model: for the parts of attention in the largest
/// step, which is allocated while serving, and for products.
pub(crate) fn bytes(config: &ModelConfig, storage: Storage, options: &ModelOptions) -> usize {
    let (_, bytes) = parts_of(most_parts(config, storage, options), config.head_size);
    bytes.next_multiple_of(SCRATCH_STEP) + gemm::BYTES
}

/// Rows times parts times heads, at most. Where contexts are computed in several parts, there are no
/// more blocks than multiprocessors are given, and no block has more than so many rows and heads.
fn most_parts(config: &ModelConfig, storage: Storage, options: &ModelOptions) -> usize {
    let rows = match has_fast(config, storage, PREFILL_ROWS) {
        true => options.step_tokens,
        false => ROWS_AT_ONCE.min(options.step_tokens),
    };
    // The last layer of a prompt's step is computed for outputs alone, as rows that decode.
    let decodes = padded(options.slots.max(options.outputs));
    let rows = rows.max(SPLITS_OF_MANY * decodes);
    let of_block = PREFILL_ROWS.max(config.heads / config.kv_heads);
    (rows * config.heads).max(BLOCKS_EACH * MULTIPROCESSORS * of_block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::device::attention::{decode_splits, splits};
    use crate::ops::device::kernels::row_grid;
    use crate::weights::CacheDtype;

    const FP8: Storage = Storage::Fp8 {
        cache: CacheDtype::Fp8,
    };
    const BF16: Storage = Storage::Bf16 {
        cache: CacheDtype::Bf16,
    };

    /// Eight heads.
    fn shape(kv_heads: usize, head_size: usize, feed_forward: usize) -> ModelConfig {
        let json = format!(
            r#"{{"model_type": "llama", "hidden_size": 512, "intermediate_size": {feed_forward},
            "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": {kv_heads},
            "head_dim": {head_size}, "vocab_size": 100, "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-5}}"#
        );
        ModelConfig::from_config_json("shape", json.as_bytes()).unwrap()
    }

    #[track_caller]
    fn check(head_size: usize, feed_forward: usize, expected: &str) {
        let found = match supported(&shape(2, head_size, feed_forward)) {
            Ok(()) => String::new(),
            Err(why) => why.to_string(),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn a_model_without_kernels_is_refused() {
        check(64, 512, "");
        check(24, 65_536, "");
        check(256, 512, "");
        check(
            100,
            512,
            "heads of 100 components are not supported (a multiple of 8, at most 256): use --engine llama",
        );
        check(
            264,
            512,
            "heads of 264 components are not supported (a multiple of 8, at most 256): use --engine llama",
        );
        check(
            64,
            65_544,
            "a feed-forward size of 65544 is not supported (at most 65536): use --engine llama",
        );
    }

    #[test]
    fn the_longest_row_has_a_grid_and_a_longer_one_has_none() {
        for rows in [1, 17, 33, 65] {
            assert!(row_grid(rows, LARGEST_ROW).is_ok());
            assert!(row_grid(rows, LARGEST_ROW + 1).is_err());
        }
    }

    #[test]
    fn fast_attention_is_for_pages_of_fp8_and_heads_of_64_or_128() {
        let fast = |kv_heads, head_size, storage| {
            has_fast_attention(&shape(kv_heads, head_size, 512), storage)
        };
        assert!(fast(2, 64, FP8) && fast(1, 128, FP8));
        assert!(!fast(2, 64, BF16) && !fast(2, 96, FP8));
    }

    #[test]
    fn no_step_needs_more_parts_than_are_counted() {
        let options = ModelOptions {
            slots: 64,
            step_tokens: 2048,
            outputs: 64,
            context: 8192,
            blocks: 256,
        };
        for (kv_heads, storage) in [(1, FP8), (2, FP8), (8, FP8), (1, BF16), (8, BF16)] {
            let config = shape(kv_heads, 64, 512);
            let most = most_parts(&config, storage, &options);
            // How many rows a block has of those behind the decoding ones, and how many rows are
            // computed at once.
            let (room, at_once) = match has_fast(&config, storage, PREFILL_ROWS) {
                true => (PREFILL_ROWS * kv_heads / config.heads, options.step_tokens),
                false => (1, ROWS_AT_ONCE),
            };
            type Splits = fn(usize, usize, usize) -> usize;
            let decodes =
                (1..=padded(options.slots)).map(|rows| (rows, rows, decode_splits as Splits));
            let prefills = (1..=at_once).map(|rows| (rows, rows.div_ceil(room), splits as Splits));
            for (rows, blocks, splits) in decodes.chain(prefills) {
                let parts = splits(MULTIPROCESSORS, options.context, blocks * kv_heads);
                let needed = rows * parts * config.heads;
                assert!(
                    needed <= most,
                    "{rows} rows, {kv_heads}: {needed} of {most}"
                );
            }
        }
    }
}
