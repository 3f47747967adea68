//! The buffers of a step, made once.

use super::ModelOptions;
use crate::buffer::{OutOfMemory, Rows};
use crate::cache::KvAddress;
use crate::kernels::Isa;
use crate::kernels::attention::TOGETHER;
use crate::kernels::product::PANEL_STRIPES;
use crate::layout::{BLOCK, LANES};
use crate::plan::Plan;
use checkpoint::ModelConfig;

/// Inputs of a product, with the sums of their blocks.
#[derive(Debug)]
pub(crate) struct Activations {
    pub(crate) values: Rows,
    pub(crate) sums: Rows,
}

impl Activations {
    pub(crate) fn new(rows: usize, width: usize) -> Result<Self, OutOfMemory> {
        let values = Rows::new(rows, width)?;
        let sums = Rows::new(rows, values.stride() / BLOCK)?;
        Ok(Self { values, sums })
    }

    /// Sums up a row that has been written.
    ///
    /// # Safety
    ///
    /// Nobody else writes the row's values, or uses its sums, meanwhile.
    pub(crate) unsafe fn seal(&self, isa: Isa, row: usize) {
        // SAFETY: the caller's promise is the same.
        let (values, sums) = unsafe { (self.values.row(row), self.sums.row_mut(row)) };
        isa.block_sums(values, &mut sums[..values.len() / BLOCK]);
    }
}

/// Some queries of one sequence against one head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) row: usize,
    pub(crate) head: usize,
    /// Queries of the row are numbered by token, then by head of the group.
    pub(crate) first: usize,
    pub(crate) count: usize,
}

#[derive(Debug)]
pub(crate) struct Workspace {
    pub(crate) residual: Rows,
    pub(crate) normed: Activations,
    /// Queries, keys and values, each from a whole stripe on.
    pub(crate) qkv: Rows,
    /// What heads found, each filled up to whole lanes.
    pub(crate) heads: Rows,
    pub(crate) attended: Activations,
    /// What a part of a layer adds.
    pub(crate) addition: Rows,
    pub(crate) gate: Activations,
    pub(crate) up: Rows,
    /// Final states of tokens whose distribution is wanted.
    pub(crate) last: Activations,
    pub(crate) logits: Rows,
    /// States that were kept on the way.
    pub(crate) taps: Vec<Rows>,
    /// One for each member.
    pub(crate) panels: Rows,
    pub(crate) scores: Rows,
    /// Numbers in a row of scores.
    pub(crate) score_stride: usize,
    /// Where each token's keys and values are.
    pub(crate) places: Vec<KvAddress>,
    /// Whether a token writes to its place: no two of a step write to the same one.
    pub(crate) stores: Vec<bool>,
    /// Places in order with their tokens, to see that.
    sorted_places: Vec<(KvAddress, usize)>,
    /// The position of each token.
    pub(crate) positions: Vec<usize>,
    pub(crate) tasks: Vec<Task>,
}

impl Workspace {
    /// `widest` is the longest row that is multiplied besides those that the shape tells.
    pub(crate) fn new(
        config: &ModelConfig,
        options: &ModelOptions,
        widest: usize,
    ) -> Result<Self, OutOfMemory> {
        let tokens = options.step_tokens;
        let whole = |width: usize| width.next_multiple_of(LANES);
        let query_width = config.heads * config.head_size;
        let kv_width = config.kv_heads * config.head_size;
        let widest = widest
            .max(config.hidden)
            .max(config.feed_forward)
            .max(query_width);
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
            taps: options
                .taps
                .iter()
                .map(|_| Rows::new(tokens, config.hidden))
                .collect::<Result<_, _>>()?,
            panels: Rows::new(options.threads, panel)?,
            scores: Rows::new(options.threads, TOGETHER * score_stride)?,
            score_stride,
            places: Vec::with_capacity(tokens),
            stores: Vec::with_capacity(tokens),
            sorted_places: Vec::with_capacity(tokens),
            positions: Vec::with_capacity(tokens),
            tasks: Vec::with_capacity(queries.div_ceil(TOGETHER) + tokens * config.kv_heads),
        })
    }

    /// Finds the places of all tokens, and cuts attention into tasks.
    ///
    /// Members write places and outputs of tasks at the same time. That no two write to the same
    /// follows from how a plan is made, row behind row, and from the choice of writers.
    pub(crate) fn prepare(&mut self, config: &ModelConfig, plan: &Plan) {
        self.places.clear();
        self.positions.clear();
        self.tasks.clear();
        let block_size = plan.block_size;
        let group = config.heads / config.kv_heads;
        for (index, row) in plan.rows.iter().enumerate() {
            let blocks = plan.blocks_of(row);
            for position in row.start..row.start + row.count {
                self.positions.push(position);
                self.places.push(KvAddress {
                    block: blocks[position / block_size],
                    offset: position % block_size,
                });
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
        self.choose_writers();
        // The longest first, so that no member is left with one at the end.
        self.tasks.reverse();
    }

    /// Sequences with equal beginnings share blocks. Where two of them compute the same position, as
    /// a drafter does that is behind its target, the first writes it: the other's numbers are equal.
    fn choose_writers(&mut self) {
        self.stores.clear();
        self.stores.resize(self.places.len(), true);
        self.sorted_places.clear();
        self.sorted_places
            .extend(self.places.iter().copied().zip(0..));
        self.sorted_places.sort_unstable();
        for pair in self.sorted_places.windows(2) {
            if pair[0].0 == pair[1].0 {
                self.stores[pair[1].1] = false;
            }
        }
    }
}
