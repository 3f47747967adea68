//! The phases of a step.
//!
//! In a phase each member of the team has rows, stripes or tasks of its own, and all members have
//! finished a phase before the next begins: [`Team::run`] returns no earlier. What a phase writes is
//! therefore its writer's alone, and what an earlier phase wrote is everybody's to read.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::workspace::{Activations, Task, Workspace};
use crate::buffer::Rows;
use crate::cache::KvCache;
use crate::kernels::attention::{CachedHead, Query, TOGETHER};
use crate::kernels::product::{Inputs, Operands, Outputs};
use crate::kernels::{Isa, Norm};
use crate::layout::{BLOCK, LANES};
use crate::matrix::Matrix;
use crate::plan::Plan;
use crate::rope::Rope;
use crate::team::{Team, share};
use crate::weights::Layer;
use checkpoint::ModelConfig;

/// Tokens from which it pays to share work on single rows: for fewer, waiting costs more.
const SHARED_ROWS: usize = 8;
/// Stripes are shared in these, which the widest tile takes at once and which are whole blocks.
const STRIPE_PART: usize = 4;

pub(crate) struct Phases<'a> {
    pub(crate) config: &'a ModelConfig,
    pub(crate) rope: &'a Rope,
    pub(crate) cache: &'a KvCache,
    pub(crate) space: &'a Workspace,
    pub(crate) isa: Isa,
    pub(crate) plan: &'a Plan,
    pub(crate) team: &'a mut Team,
}

impl Phases<'_> {
    fn tokens(&self) -> usize {
        self.plan.tokens.len()
    }

    /// Calls `work` once for each row, here or by all members, and returns when all are done. Rows
    /// must be independent.
    pub(crate) fn each_row(team: &mut Team, rows: usize, work: impl Fn(usize) + Sync) {
        if rows < SHARED_ROWS {
            return (0..rows).for_each(work);
        }
        let size = team.size();
        team.run(|member| share(rows, 1, member, size).for_each(&work));
    }

    pub(crate) fn embed(&mut self, embeddings: &Matrix) {
        let (space, plan) = (self.space, self.plan);
        Self::each_row(self.team, plan.tokens.len(), |token| {
            // SAFETY: a phase of rows; nobody else has this one.
            let row = unsafe { space.residual.row_mut(token) };
            embeddings.row(plan.tokens[token] as usize, row);
        });
    }

    /// Copies the residual stream as it is now.
    pub(crate) fn keep(&mut self, to: &Rows) {
        let space = self.space;
        Self::each_row(self.team, self.plan.tokens.len(), |token| {
            // SAFETY: a phase of rows; nobody else has this one of either buffer.
            let (from, to) = unsafe { (space.residual.row(token), to.row_mut(token)) };
            to.copy_from_slice(from);
        });
    }

    fn norm_by<'w>(&self, weight: &'w [f32]) -> Norm<'w> {
        Norm {
            weight,
            width: self.config.hidden,
            epsilon: self.config.norm_epsilon,
        }
    }

    fn norm(&mut self, weight: &[f32]) {
        let (space, isa) = (self.space, self.isa);
        let norm = self.norm_by(weight);
        Self::each_row(self.team, self.plan.tokens.len(), |token| {
            // SAFETY: a phase of rows; nobody else has this one of any buffer.
            unsafe {
                let from = space.residual.row(token);
                isa.rms_norm(norm, from, space.normed.values.row_mut(token));
                space.normed.seal(isa, token);
            }
        });
    }

    /// What a part of a layer found goes into the residual stream.
    fn add(&mut self) {
        let (space, isa) = (self.space, self.isa);
        Self::each_row(self.team, self.plan.tokens.len(), |token| {
            // SAFETY: a phase of rows; nobody else has this one of either buffer.
            let (row, to) = unsafe { (space.addition.row(token), space.residual.row_mut(token)) };
            isa.add(row, to);
        });
    }

    /// `input` times each matrix, whose outputs lie side by side in `to`, each from a whole
    /// stripe on.
    pub(crate) fn multiply(
        &mut self,
        matrices: &[&Matrix],
        input: &Activations,
        rows: usize,
        to: &Rows,
    ) {
        let (space, isa, size) = (self.space, self.isa, self.team.size());
        let total: usize = matrices.iter().map(|matrix| matrix.stripes()).sum();
        for matrix in matrices {
            assert!(
                matrix.blocks() * BLOCK <= input.values.stride(),
                "inputs are as wide"
            );
        }
        assert!(total * LANES <= to.stride(), "room for all stripes");
        let operands = Self::operands(input, rows, to);
        self.team.run(|member| {
            let mine = share(total, STRIPE_PART, member, size);
            // SAFETY: a panel for each member.
            let panel = unsafe { space.panels.row_mut(member) };
            let mut before = 0;
            for matrix in matrices {
                let stripes = matrix.stripes();
                let begin = mine.start.clamp(before, before + stripes) - before;
                let end = mine.end.clamp(before, before + stripes) - before;
                // SAFETY: members have stripes of their own, so nobody else writes these columns of
                // `to`, and nobody writes the inputs in this phase. Buffers have `rows` rows, whose
                // widths were checked above.
                unsafe {
                    isa.product(matrix, begin..end, operands.skip_stripes(before), panel);
                }
                before += stripes;
            }
        });
    }

    /// The first `rows` rows of both, which must be there.
    fn operands(input: &Activations, rows: usize, to: &Rows) -> Operands {
        assert!(rows <= input.values.rows() && rows <= input.sums.rows() && rows <= to.rows());
        Operands {
            input: Inputs {
                values: input.values.address(0),
                stride: input.values.stride(),
                sums: input.sums.address(0),
                sums_stride: input.sums.stride(),
                count: rows,
            },
            output: Outputs {
                values: to.address(0),
                stride: to.stride(),
            },
        }
    }

    pub(crate) fn attention(&mut self, index: usize, layer: &Layer) {
        self.norm(&layer.attention_norm);
        self.attention_of(index, layer, &self.space.normed);
    }

    /// Attention with inputs that have been made ready.
    pub(crate) fn attention_of(&mut self, index: usize, layer: &Layer, input: &Activations) {
        let [q, k, v] = &layer.qkv;
        let space = self.space;
        self.multiply(&[q, k, v], input, self.tokens(), &space.qkv);
        self.place(index, layer);
        self.attend(index);
        self.collect_heads();
        let output = &[&layer.attention_output];
        self.multiply(output, &space.attended, self.tokens(), &space.addition);
        self.add();
    }

    /// Biases, positions, and into the cache.
    fn place(&mut self, index: usize, layer: &Layer) {
        let (space, config, rope, cache) = (self.space, self.config, self.rope, self.cache);
        let size = config.head_size;
        let starts = [
            0,
            layer.qkv[0].stripes(),
            layer.qkv[0].stripes() + layer.qkv[1].stripes(),
        ];
        let widths = [
            config.heads * size,
            config.kv_heads * size,
            config.kv_heads * size,
        ];
        Self::each_row(self.team, self.plan.tokens.len(), |token| {
            // SAFETY: a phase of rows; nobody else has this one.
            let row = unsafe { space.qkv.row_mut(token) };
            if let Some(biases) = &layer.qkv_bias {
                for (bias, (start, width)) in biases.iter().zip(starts.iter().zip(widths)) {
                    let part = &mut row[start * LANES..][..width];
                    part.iter_mut().zip(bias).for_each(|(to, bias)| *to += bias);
                }
            }
            let position = space.positions[token];
            for (start, width) in starts.iter().zip(widths).take(2) {
                let part = &mut row[start * LANES..][..width];
                part.chunks_exact_mut(size)
                    .for_each(|head| rope.turn(head, position));
            }
            let keys = &row[starts[1] * LANES..][..widths[1]];
            let values = &row[starts[2] * LANES..][..widths[2]];
            if space.stores[token] {
                // SAFETY: a phase of rows, and no two tokens store to the same place: `prepare` saw
                // to it. The cache is read in the next phase.
                unsafe { cache.store(index, space.places[token], keys, values) };
            }
        });
    }

    fn attend(&mut self, index: usize) {
        let next = AtomicUsize::new(0);
        let (space, isa) = (self.space, self.isa);
        let shared = Attending {
            config: self.config,
            cache: self.cache,
            space,
            plan: self.plan,
            isa,
            layer: index,
        };
        self.team.run(|member| {
            // SAFETY: scores for each member.
            let scores = unsafe { space.scores.row_mut(member) };
            while let Some(task) = space.tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                shared.task(task, scores);
            }
        });
    }

    /// Heads without filling, ready for a product.
    fn collect_heads(&mut self) {
        let (space, isa, size) = (self.space, self.isa, self.config.head_size);
        Self::each_row(self.team, self.plan.tokens.len(), |token| {
            // SAFETY: a phase of rows; nobody else has this one of any buffer.
            unsafe {
                let from = space.heads.row(token);
                let to = space.attended.values.row_mut(token);
                let from = from.chunks_exact(size.next_multiple_of(LANES));
                for (from, to) in from.zip(to.chunks_exact_mut(size)).take(self.config.heads) {
                    to.copy_from_slice(&from[..size]);
                }
                space.attended.seal(isa, token);
            }
        });
    }

    pub(crate) fn feed_forward(&mut self, layer: &Layer) {
        self.norm(&layer.feed_forward_norm);
        let (space, isa, size) = (self.space, self.isa, self.team.size());
        let tokens = self.tokens();
        for matrix in [&layer.gate, &layer.up] {
            assert!(matrix.blocks() * BLOCK <= space.normed.values.stride());
            assert!(matrix.stripes() * LANES <= space.gate.values.stride().min(space.up.stride()));
        }
        let gates = Self::operands(&space.normed, tokens, &space.gate.values);
        let ups = Self::operands(&space.normed, tokens, &space.up);
        self.team.run(|member| {
            let mine = share(layer.gate.stripes(), STRIPE_PART, member, size);
            let columns = mine.start * LANES..mine.end * LANES;
            // SAFETY: a panel for each member. Members have stripes of their own, so nobody else
            // uses these columns of either output, and nobody writes the inputs in this phase.
            // Buffers have `tokens` rows, whose widths were checked above.
            unsafe {
                let panel = space.panels.row_mut(member);
                isa.product(&layer.gate, mine.clone(), gates, panel);
                isa.product(&layer.up, mine.clone(), ups, panel);
                for token in 0..tokens {
                    let gate = space.gate.values.columns_mut(token, columns.clone());
                    isa.gated(gate, space.up.columns(token, columns.clone()));
                }
            }
        });
        Self::each_row(self.team, tokens, |token| {
            // SAFETY: a phase of rows; nobody else has this one of either buffer.
            unsafe { space.gate.seal(isa, token) };
        });
        self.multiply(&[&layer.down], &space.gate, tokens, &space.addition);
        self.add();
    }

    pub(crate) fn distributions(&mut self, norm: &[f32], head: &Matrix) {
        let (space, plan, isa) = (self.space, self.plan, self.isa);
        let norm = self.norm_by(norm);
        Self::each_row(self.team, plan.outputs.len(), |output| {
            // SAFETY: a phase of rows; nobody else has this output's, and nobody writes the
            // residual stream.
            unsafe {
                let from = space.residual.row(plan.outputs[output]);
                isa.rms_norm(norm, from, space.last.values.row_mut(output));
                space.last.seal(isa, output);
            }
        });
        if !plan.outputs.is_empty() {
            self.multiply(&[head], &space.last, plan.outputs.len(), &space.logits);
        }
    }
}

/// What a task of attention needs.
struct Attending<'a> {
    config: &'a ModelConfig,
    cache: &'a KvCache,
    space: &'a Workspace,
    plan: &'a Plan,
    isa: Isa,
    layer: usize,
}

impl Attending<'_> {
    fn task(&self, task: &Task, scores: &mut [f32]) {
        let (config, space) = (self.config, self.space);
        let row = &self.plan.rows[task.row];
        let group = config.heads / config.kv_heads;
        let padded = config.head_size.next_multiple_of(LANES);
        assert!(config.heads * config.head_size <= space.qkv.stride());
        assert!(config.heads * padded <= space.heads.stride());
        let query = |number: usize| {
            let (token, head) = (number / group, task.head * group + number % group);
            // SAFETY: the head is one of `heads`, for which both rows have room, as asserted.
            unsafe {
                let from = space.qkv.address(row.first + token);
                let to = space.heads.address(row.first + token);
                Query {
                    from: from.add(head * config.head_size),
                    to: to.add(head * padded),
                    sees: row.start + token + 1,
                }
            }
        };
        let mut queries = [query(task.first); TOGETHER];
        for (index, to) in queries[..task.count].iter_mut().enumerate() {
            *to = query(task.first + index);
        }
        let cache = self.cache.layer(self.layer);
        let place = CachedHead {
            cache: &cache,
            head: task.head,
            blocks: self.plan.blocks_of(row),
        };
        let (queries, stride) = (&queries[..task.count], space.score_stride);
        // SAFETY: nobody writes queries or the cache in this phase. No two tasks have the same
        // token and head, so nobody else writes these outputs.
        unsafe { self.isa.attend(place, queries, scores, stride) };
    }
}
