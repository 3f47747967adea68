//! One step as plain data: what any device needs to compute it.

use contract::TokenId;

/// Tokens of several sequences, and where their caches are. Only [`push`](Self::push) adds to it,
/// so rows do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tokens to a block of the cache.
    pub(crate) block_size: usize,
    /// Of all rows, one after the other.
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) rows: Vec<PlanRow>,
    /// Block tables of all rows, one after the other.
    pub(crate) blocks: Vec<u32>,
    /// Places in `tokens` after which a distribution is wanted, ascending.
    pub(crate) outputs: Vec<usize>,
}

/// One sequence's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlanRow {
    /// Its first token in [`Plan::tokens`].
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// The position of its first token; those before are in the cache.
    pub(crate) start: usize,
    /// Its table in [`Plan::blocks`].
    pub(crate) first_block: usize,
    pub(crate) block_count: usize,
}

impl Plan {
    pub fn new(block_size: usize) -> Self {
        Self {
            block_size,
            ..Self::default()
        }
    }

    pub fn clear(&mut self) {
        self.tokens.clear();
        self.rows.clear();
        self.blocks.clear();
        self.outputs.clear();
    }

    /// Adds a sequence's part. Distributions are wanted after its last `outputs` tokens.
    pub fn push(
        &mut self,
        tokens: impl IntoIterator<Item = TokenId>,
        start: usize,
        blocks: impl IntoIterator<Item = u32>,
        outputs: usize,
    ) {
        let (first, first_block) = (self.tokens.len(), self.blocks.len());
        self.tokens.extend(tokens);
        self.blocks.extend(blocks);
        self.rows.push(PlanRow {
            first,
            count: self.tokens.len() - first,
            start,
            first_block,
            block_count: self.blocks.len() - first_block,
        });
        self.outputs
            .extend(self.tokens.len() - outputs..self.tokens.len());
    }

    pub(crate) fn blocks_of(&self, row: &PlanRow) -> &[u32] {
        &self.blocks[row.first_block..row.first_block + row.block_count]
    }
}
