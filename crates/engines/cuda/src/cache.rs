//! Keys and values: a pool of blocks, whose layout is [`Pages`]'.

use checkpoint::{CacheScales, ModelConfig};

use crate::ops::{Dtype, Ops, OpsError, PAGE_TOKENS, Pages};
use crate::weights::Storage;

/// Why there is no cache.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error(transparent)]
    Ops(#[from] OpsError),
    #[error(
        "there is memory for {tokens} tokens of keys and values, less than one context of {context}"
    )]
    TooSmall { tokens: usize, context: usize },
}

/// Keys and values of all blocks.
#[derive(Debug)]
pub(crate) struct KvPool<B> {
    pool: B,
    blocks: usize,
    shape: BlockShape,
}

/// What a block's size follows from.
#[derive(Clone, Copy, Debug)]
struct BlockShape {
    dtype: Dtype,
    layers: usize,
    kv_heads: usize,
    head_size: usize,
}

impl BlockShape {
    fn new(config: &ModelConfig, storage: Storage) -> Self {
        Self {
            dtype: storage.cache(),
            layers: config.layers,
            kv_heads: config.kv_heads,
            head_size: config.head_size,
        }
    }

    fn pages<B>(self, pool: &B, layer: usize, scales: CacheScales) -> Pages<'_, B> {
        Pages {
            pool,
            dtype: self.dtype,
            layers: self.layers,
            layer,
            kv_heads: self.kv_heads,
            head_size: self.head_size,
            key_scale: scales.keys,
            value_scale: scales.values,
        }
    }
}

/// Memory of one block.
pub fn block_bytes(config: &ModelConfig, storage: Storage) -> usize {
    let shape = BlockShape::new(config, storage);
    shape.pages(&(), 0, CacheScales::NONE).block_bytes()
}

impl<B> KvPool<B> {
    /// A pool that holds at least one context.
    pub(crate) fn new<O: Ops<Buffer = B>>(
        ops: &mut O,
        (config, storage): (&ModelConfig, Storage),
        blocks: usize,
        context: usize,
    ) -> Result<Self, CacheError> {
        let block = block_bytes(config, storage);
        if blocks * PAGE_TOKENS < context {
            return Err(CacheError::TooSmall {
                tokens: blocks * PAGE_TOKENS,
                context,
            });
        }
        Ok(Self {
            pool: ops.allocate(blocks * block)?,
            blocks,
            shape: BlockShape::new(config, storage),
        })
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks
    }

    /// The pages of a layer, whose keys and values have these scales.
    pub(crate) fn layer(&self, layer: usize, scales: CacheScales) -> Pages<'_, B> {
        self.shape.pages(&self.pool, layer, scales)
    }
}
