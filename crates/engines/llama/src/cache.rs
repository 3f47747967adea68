//! The memory of keys and values, in the engine's blocks.
//!
//! A phase of a step writes positions, each by one member; a later one reads them.

#![expect(
    unsafe_code,
    reason = "members of a team write positions of one buffer at the same time"
)]

#[cfg(test)]
mod tests;

use crate::buffer::{Buffer, OutOfMemory};
use crate::kernels::attention::Cache;
use crate::layout::LANES;
use checkpoint::ModelConfig;

/// Keys and values of all layers.
#[derive(Debug)]
pub(crate) struct KvCache {
    layers: Vec<LayerCache>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    blocks: usize,
    block_size: usize,
    heads: usize,
    head_size: usize,
}

#[derive(Debug)]
struct LayerCache {
    keys: Buffer,
    values: Buffer,
}

/// Where a token's keys and values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KvAddress {
    pub(crate) block: u32,
    /// In the block.
    pub(crate) offset: usize,
}

impl Shape {
    fn new(config: &ModelConfig, block_size: usize, blocks: usize) -> Self {
        Self {
            blocks,
            block_size,
            heads: config.kv_heads,
            head_size: config.head_size,
        }
    }

    fn view(self, keys: *const f32, values: *const f32) -> Cache {
        Cache {
            keys,
            values,
            blocks: self.blocks,
            block_size: self.block_size,
            heads: self.heads,
            head_size: self.head_size,
            padded_head: self.head_size.next_multiple_of(LANES),
        }
    }

    /// Without memory, to know sizes.
    fn sizes(self) -> Cache {
        self.view(std::ptr::null(), std::ptr::null())
    }
}

impl KvCache {
    pub(crate) fn new(
        config: &ModelConfig,
        block_size: usize,
        blocks: usize,
    ) -> Result<Self, OutOfMemory> {
        let shape = Shape::new(config, block_size, blocks);
        let sizes = shape.sizes();
        let layer = || {
            Ok(LayerCache {
                keys: Buffer::zeros(blocks * sizes.key_numbers())?,
                values: Buffer::zeros(blocks * sizes.value_numbers())?,
            })
        };
        let layers = (0..config.layers)
            .map(|_| layer())
            .collect::<Result<_, _>>()?;
        Ok(Self { layers, shape })
    }

    /// Memory of one block in all layers.
    pub(crate) fn block_bytes(config: &ModelConfig, block_size: usize) -> usize {
        let sizes = Shape::new(config, block_size, 1).sizes();
        config.layers * (sizes.key_numbers() + sizes.value_numbers()) * size_of::<f32>()
    }

    pub(crate) fn layer(&self, layer: usize) -> Cache {
        let LayerCache { keys, values } = &self.layers[layer];
        self.shape.view(keys.address(0), values.address(0))
    }

    /// Stores one token's keys and values, all heads side by side.
    ///
    /// # Safety
    ///
    /// Nobody else writes the place or reads it meanwhile.
    pub(crate) unsafe fn store(
        &self,
        layer: usize,
        place: KvAddress,
        keys: &[f32],
        values: &[f32],
    ) {
        let view = self.layer(layer);
        let buffers = &self.layers[layer];
        let (block, offset, size) = (place.block as usize, place.offset, view.head_size);
        assert!(offset < view.block_size && block < view.blocks);
        assert!(keys.len() == view.heads * size && values.len() == view.heads * size);
        let to_keys = buffers.keys.address(block * view.key_numbers());
        let to_values = buffers.values.address(block * view.value_numbers());
        let heads = keys.chunks_exact(size).zip(values.chunks_exact(size));
        for (head, (keys, values)) in heads.enumerate() {
            let key_at = (head * view.groups() + offset / LANES) * size * LANES + offset % LANES;
            let value_at = (head * view.block_size + offset) * view.padded_head;
            for (component, (key, value)) in keys.iter().zip(values).enumerate() {
                // SAFETY: both buffers have `blocks` blocks, and within one, head and offset are
                // below their numbers and the component below the head's size. The caller answers
                // for the place.
                unsafe {
                    *to_keys.add(key_at + component * LANES) = *key;
                    *to_values.add(value_at + component) = *value;
                }
            }
        }
    }
}
