//! The buffers of a step, made once.

use super::ModelOptions;
use crate::buffer::{OutOfMemory, Rows};
use crate::config::ModelConfig;
use crate::kernels::attention::TOGETHER;
use crate::kernels::product::PANEL_STRIPES;
use crate::kernels::{Isa, LANES};
use crate::matrix::BLOCK;
use crate::plan::Plan;

/// Inputs of a product, with the sums of their blocks.
#[derive(Debug)]
pub(super) struct Activations {
    pub(super) values: Rows,
    pub(super) sums: Rows,
}

impl Activations {
    fn new(rows: usize, width: usize) -> Result<Self, OutOfMemory> {
        let values = Rows::new(rows, width)?;
        let sums = Rows::new(rows, values.stride() / BLOCK)?;
        Ok(Self { values, sums })
    }

    /// Sums up a row that has been written.
    ///
    /// # Safety
    ///
    /// As [`Rows::row_mut`].
    pub(super) unsafe fn seal(&self, isa: Isa, row: usize) {
        unsafe {
            let sums = self.sums.row_mut(row);
            let blocks = self.values.stride() / BLOCK;
            isa.block_sums(self.values.row(row), &mut sums[..blocks]);
        }
    }
}

/// Some queries of one sequence against one head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) row: usize,
    pub(super) head: usize,
    /// Queries of the row are numbered by token, then by head of the group.
    pub(super) first: usize,
    pub(super) count: usize,
}

#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) residual: Rows,
    pub(super) normed: Activations,
    /// Queries, keys and values, each from a whole stripe on.
    pub(super) qkv: Rows,
    /// What heads found, each filled up to whole lanes.
    pub(super) heads: Rows,
    pub(super) attended: Activations,
    /// What a part of a layer adds.
    pub(super) addition: Rows,
    pub(super) gate: Activations,
    pub(super) up: Rows,
    /// Final states of tokens whose distribution is wanted.
    pub(super) last: Activations,
    pub(super) logits: Rows,
    /// One for each member.
    pub(super) panels: Rows,
    pub(super) scores: Rows,
    /// Numbers in a row of scores.
    pub(super) score_stride: usize,
    /// Block and offset of each token.
    pub(super) places: Vec<(u32, usize)>,
    /// The position of each token.
    pub(super) positions: Vec<usize>,
    pub(super) tasks: Vec<Task>,
}

impl Workspace {
    pub(super) fn new(config: &ModelConfig, options: &ModelOptions) -> Result<Self, OutOfMemory> {
        let tokens = options.step_tokens;
        let whole = |width: usize| width.next_multiple_of(LANES);
        let query_width = config.heads * config.head_size;
        let kv_width = config.kv_heads * config.head_size;
        let widest = config.hidden.max(config.feed_forward).max(query_width);
        let panel = PANEL_STRIPES * LANES * widest.next_multiple_of(BLOCK);
        let score_stride = whole(options.context.next_multiple_of(options.block_size)) + 2 * LANES;
        let queries = tokens * config.heads;
        Ok(Self {
            residual: Rows::new(tokens, config.hidden)?,
            normed: Activations::new(tokens, config.hidden)?,
            qkv: Rows::new(tokens, whole(query_width) + 2 * whole(kv_width))?,
            heads: Rows::new(tokens, config.heads * whole(config.head_size))?,
            attended: Activations::new(tokens, query_width)?,
            addition: Rows::new(tokens, config.hidden)?,
            gate: Activations::new(tokens, config.feed_forward)?,
            up: Rows::new(tokens, config.feed_forward)?,
            last: Activations::new(options.outputs, config.hidden)?,
            logits: Rows::new(options.outputs, config.vocabulary)?,
            panels: Rows::new(options.threads, panel)?,
            scores: Rows::new(options.threads, TOGETHER * score_stride)?,
            score_stride,
            places: Vec::with_capacity(tokens),
            positions: Vec::with_capacity(tokens),
            tasks: Vec::with_capacity(queries.div_ceil(TOGETHER) + tokens * config.kv_heads),
        })
    }

    /// Finds the places of all tokens, and cuts attention into tasks.
    pub(super) fn prepare(&mut self, config: &ModelConfig, plan: &Plan) {
        self.places.clear();
        self.positions.clear();
        self.tasks.clear();
        let block_size = plan.block_size;
        let group = config.heads / config.kv_heads;
        for (index, row) in plan.rows.iter().enumerate() {
            let blocks = plan.blocks_of(row);
            for position in row.start..row.start + row.count {
                self.positions.push(position);
                self.places
                    .push((blocks[position / block_size], position % block_size));
            }
            for first in (0..row.count * group).step_by(TOGETHER) {
                for head in 0..config.kv_heads {
                    self.tasks.push(Task {
                        row: index,
                        head,
                        first,
                        count: TOGETHER.min(row.count * group - first),
                    });
                }
            }
        }
        // The longest first, so that no member is left with one at the end.
        self.tasks.reverse();
    }
}
