//! The memory of keys and values, in the engine's blocks.

#![expect(
    unsafe_code,
    reason = "members of a team write positions of one buffer at the same time"
)]

use std::cell::UnsafeCell;

use crate::buffer::{OutOfMemory, zeros};
use crate::config::ModelConfig;
use crate::kernels::LANES;
use crate::kernels::attention::Cache;

/// Keys and values of all layers.
#[derive(Debug)]
pub(crate) struct KvCache {
    layers: Vec<LayerCache>,
    shape: Shape,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    block_size: usize,
    heads: usize,
    head_size: usize,
}

#[derive(Debug)]
struct LayerCache {
    keys: UnsafeCell<Vec<f32>>,
    values: UnsafeCell<Vec<f32>>,
}

// A position is written by one member, and read in a later phase.
unsafe impl Sync for LayerCache {}

impl Shape {
    fn view(self, keys: *const f32, values: *const f32) -> Cache {
        Cache {
            keys,
            values,
            block_size: self.block_size,
            heads: self.heads,
            head_size: self.head_size,
            padded_head: self.head_size.next_multiple_of(LANES),
        }
    }
}

impl KvCache {
    pub(crate) fn new(
        config: &ModelConfig,
        block_size: usize,
        blocks: usize,
    ) -> Result<Self, OutOfMemory> {
        let shape = Shape {
            block_size,
            heads: config.kv_heads,
            head_size: config.head_size,
        };
        let view = shape.view(std::ptr::null(), std::ptr::null());
        let layer = || {
            Ok(LayerCache {
                keys: UnsafeCell::new(zeros(blocks * view.key_numbers())?),
                values: UnsafeCell::new(zeros(blocks * view.value_numbers())?),
            })
        };
        let layers = (0..config.layers)
            .map(|_| layer())
            .collect::<Result<_, _>>()?;
        Ok(Self { layers, shape })
    }

    /// Memory of one block in all layers.
    pub(crate) fn block_bytes(config: &ModelConfig, block_size: usize) -> usize {
        let shape = Shape {
            block_size,
            heads: config.kv_heads,
            head_size: config.head_size,
        };
        let view = shape.view(std::ptr::null(), std::ptr::null());
        config.layers * (view.key_numbers() + view.value_numbers()) * size_of::<f32>()
    }

    pub(crate) fn layer(&self, layer: usize) -> Cache {
        let layer = &self.layers[layer];
        let start = |numbers: &UnsafeCell<Vec<f32>>| unsafe { (*numbers.get()).as_ptr() };
        self.shape.view(start(&layer.keys), start(&layer.values))
    }

    /// Stores one token's keys and values, all heads side by side.
    ///
    /// # Safety
    ///
    /// Nobody else writes the position or reads it meanwhile.
    pub(crate) unsafe fn store(
        &self,
        layer: usize,
        (block, offset): (u32, usize),
        keys: &[f32],
        values: &[f32],
    ) {
        let view = self.layer(layer);
        let buffers = &self.layers[layer];
        let (all_keys, all_values) =
            unsafe { (&mut *buffers.keys.get(), &mut *buffers.values.get()) };
        let (block, size) = (block as usize, view.head_size);
        assert!(offset < view.block_size && (block + 1) * view.key_numbers() <= all_keys.len());
        let (to_keys, to_values) = (all_keys.as_mut_ptr(), all_values.as_mut_ptr());
        for head in 0..view.heads {
            let group = (head * view.groups() + offset / LANES) * size * LANES + offset % LANES;
            let key_at = block * view.key_numbers() + group;
            let value_at =
                block * view.value_numbers() + (head * view.block_size + offset) * view.padded_head;
            for component in 0..size {
                unsafe {
                    *to_keys.add(key_at + component * LANES) = keys[head * size + component];
                    *to_values.add(value_at + component) = values[head * size + component];
                }
            }
        }
    }
}
