//! How a device's memory is divided: weights, what each worker computes in, and its cache.

#[cfg(test)]
mod tests;

use checkpoint::ModelConfig;

use crate::cache::block_bytes;
use crate::model::{Model, ModelOptions};
use crate::ops::PAGE_TOKENS;
use crate::ops::device::{DeviceOps, limits};
use crate::weights::{Storage, bytes_of};

/// What workers of a model take of a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Of all workers together.
    pub weights: usize,
    /// Of each worker, besides its cache.
    pub workspace: usize,
    pub block: usize,
    /// Tokens that a cache must hold.
    pub context: usize,
}

/// What there is, and who shares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Before weights are loaded.
    pub free: usize,
    /// Stays free.
    pub reserve: usize,
    pub workers: usize,
    /// What each cache may have; without it, an equal part of what is left.
    pub cache: Option<usize>,
}

/// Why no cache has room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoom {
    #[error(
        "{} MB of weights and {} MB of workspace for each of {workers} worker(s) leave no room for one context of {} tokens in {} MB: lower --context, --max-step-tokens or --workers, or add --kv-cache-dtype fp8 or --weight-dtype fp8",
        .needs.weights >> 20,
        .needs.workspace >> 20,
        .needs.context,
        .free >> 20
    )]
    Context {
        needs: Needs,
        workers: usize,
        free: usize,
    },
    #[error(
        "a KV cache of {} MB per worker does not fit, there is room for {} MB: lower --kv-cache-mb or --workers",
        .asked >> 20,
        .room >> 20
    )]
    TooLarge { asked: usize, room: usize },
    #[error(
        "a KV cache of {} MB holds {tokens} tokens, less than one context of {context}: raise --kv-cache-mb or lower --context",
        .asked >> 20
    )]
    TooSmall {
        asked: usize,
        tokens: usize,
        context: usize,
    },
}

impl Needs {
    pub fn of(config: &ModelConfig, storage: Storage, options: &ModelOptions) -> Self {
        let model = Model::<DeviceOps>::workspace_bytes(config, storage, options);
        Self {
            weights: bytes_of(config, storage),
            workspace: model + limits::bytes(config, storage, options),
            block: block_bytes(config, storage),
            context: options.context,
        }
    }

    /// Memory of a worker whose cache has so many blocks.
    pub fn worker(&self, blocks: usize) -> usize {
        self.workspace + blocks * self.block
    }

    /// How many blocks each worker's cache has.
    pub fn blocks(self, memory: Memory) -> Result<usize, NoRoom> {
        let Memory { free, workers, .. } = memory;
        let taken = self.weights + workers * self.workspace + memory.reserve;
        let room = free.saturating_sub(taken) / workers / self.block;
        if room * PAGE_TOKENS < self.context {
            let needs = self;
            return Err(NoRoom::Context {
                needs,
                workers,
                free,
            });
        }
        let Some(asked) = memory.cache else {
            return Ok(room);
        };
        let blocks = asked / self.block;
        if blocks > room {
            let room = room * self.block;
            return Err(NoRoom::TooLarge { asked, room });
        }
        let (tokens, context) = (blocks * PAGE_TOKENS, self.context);
        if tokens < context {
            return Err(NoRoom::TooSmall {
                asked,
                tokens,
                context,
            });
        }
        Ok(blocks)
    }
}
