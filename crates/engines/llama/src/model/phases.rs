//! The phases of a step.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::workspace::{Activations, Task, Workspace};
use crate::buffer::Rows;
use crate::cache::KvCache;
use crate::config::ModelConfig;
use crate::kernels::attention::{Query, TOGETHER};
use crate::kernels::product::{Inputs, Outputs};
use crate::kernels::{Isa, LANES};
use crate::matrix::Matrix;
use crate::plan::Plan;
use crate::rope::Rope;
use crate::team::{Team, share};
use crate::weights::Layer;

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

/// Pointers that members may share, because each uses its own part.
struct Ends(Inputs, Outputs);
unsafe impl Sync for Ends {}

impl Phases<'_> {
    fn tokens(&self) -> usize {
        self.plan.tokens.len()
    }

    /// Calls `work` for each row, here or by all members. Rows must be independent.
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
            let row = unsafe { space.residual.row_mut(token) };
            embeddings.row(plan.tokens[token] as usize, row);
        });
    }

    /// Copies the residual stream as it is now.
    pub(crate) fn keep(&mut self, to: &Rows) {
        let space = self.space;
        Self::each_row(self.team, self.plan.tokens.len(), |token| {
            unsafe { to.row_mut(token) }.copy_from_slice(space.residual.row(token));
        });
    }

    fn norm(&mut self, weight: &[f32]) {
        let (space, isa) = (self.space, self.isa);
        let width = (self.config.hidden, self.config.norm_epsilon);
        Self::each_row(self.team, self.plan.tokens.len(), |token| unsafe {
            let to = space.normed.values.row_mut(token);
            isa.rms_norm(space.residual.row(token), weight, width, to);
            space.normed.seal(isa, token);
        });
    }

    /// What a part of a layer found goes into the residual stream.
    fn add(&mut self) {
        let (space, isa) = (self.space, self.isa);
        Self::each_row(self.team, self.plan.tokens.len(), |token| unsafe {
            isa.add(space.addition.row(token), space.residual.row_mut(token));
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
        let total = matrices.iter().map(|matrix| matrix.stripes()).sum();
        let ends = Self::ends(input, rows, to);
        self.team.run(|member| {
            let mine = share(total, STRIPE_PART, member, size);
            let panel = unsafe { space.panels.row_mut(member) };
            let Ends(inputs, outputs) = &ends;
            let mut before = 0;
            for matrix in matrices {
                let stripes = matrix.stripes();
                let begin = mine.start.clamp(before, before + stripes) - before;
                let end = mine.end.clamp(before, before + stripes) - before;
                let outputs = Outputs {
                    values: unsafe { outputs.values.add(before * LANES) },
                    ..*outputs
                };
                unsafe { isa.product(matrix, begin..end, (*inputs, outputs), panel) };
                before += stripes;
            }
        });
    }

    fn ends(input: &Activations, rows: usize, to: &Rows) -> Ends {
        let inputs = Inputs {
            values: input.values.from(0),
            stride: input.values.stride(),
            sums: input.sums.from(0),
            sums_stride: input.sums.stride(),
            count: rows,
        };
        let outputs = Outputs {
            values: to.to(0),
            stride: to.stride(),
        };
        Ends(inputs, outputs)
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
            unsafe { cache.store(index, space.places[token], keys, values) };
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
            let scores = unsafe { space.scores.row_mut(member) };
            while let Some(task) = space.tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                shared.task(task, scores);
            }
        });
    }

    /// Heads without filling, ready for a product.
    fn collect_heads(&mut self) {
        let (space, isa, size) = (self.space, self.isa, self.config.head_size);
        Self::each_row(self.team, self.plan.tokens.len(), |token| unsafe {
            let from = space
                .heads
                .row(token)
                .chunks_exact(size.next_multiple_of(LANES));
            let to = space.attended.values.row_mut(token);
            for (from, to) in from.zip(to.chunks_exact_mut(size)).take(self.config.heads) {
                to.copy_from_slice(&from[..size]);
            }
            space.attended.seal(isa, token);
        });
    }

    pub(crate) fn feed_forward(&mut self, layer: &Layer) {
        self.norm(&layer.feed_forward_norm);
        let (space, isa, size) = (self.space, self.isa, self.team.size());
        let tokens = self.tokens();
        let gate_ends = Self::ends(&space.normed, tokens, &space.gate.values);
        let up_ends = Self::ends(&space.normed, tokens, &space.up);
        self.team.run(|member| unsafe {
            let mine = share(layer.gate.stripes(), STRIPE_PART, member, size);
            let panel = space.panels.row_mut(member);
            let (Ends(inputs, gates), Ends(_, ups)) = (&gate_ends, &up_ends);
            isa.product(&layer.gate, mine.clone(), (*inputs, *gates), panel);
            isa.product(&layer.up, mine.clone(), (*inputs, *ups), panel);
            let columns = mine.start * LANES..mine.end * LANES;
            for token in 0..tokens {
                let start = gates.values.add(token * gates.stride + columns.start);
                let gate = std::slice::from_raw_parts_mut(start, columns.len());
                isa.gated(gate, &space.up.row(token)[columns.clone()]);
            }
        });
        Self::each_row(self.team, tokens, |token| unsafe {
            space.gate.seal(isa, token);
        });
        self.multiply(&[&layer.down], &space.gate, tokens, &space.addition);
        self.add();
    }

    pub(crate) fn distributions(&mut self, norm: &[f32], head: &Matrix) {
        let (space, plan, isa) = (self.space, self.plan, self.isa);
        let width = (self.config.hidden, self.config.norm_epsilon);
        Self::each_row(self.team, plan.outputs.len(), |output| unsafe {
            let from = space.residual.row(plan.outputs[output]);
            let to = space.last.values.row_mut(output);
            isa.rms_norm(from, norm, width, to);
            space.last.seal(isa, output);
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
        let query = |number: usize| {
            let (token, head) = (number / group, task.head * group + number % group);
            Query {
                from: space.qkv.row(row.first + token)[head * config.head_size..].as_ptr(),
                to: unsafe { space.heads.to(row.first + token).add(head * padded) },
                sees: row.start + token + 1,
            }
        };
        let mut queries = [query(task.first); TOGETHER];
        for (index, to) in queries[..task.count].iter_mut().enumerate() {
            *to = query(task.first + index);
        }
        let cache = self.cache.layer(self.layer);
        let blocks = self.plan.blocks_of(row);
        let scores = (scores, space.score_stride);
        unsafe {
            self.isa
                .attend(&cache, (task.head, blocks), &queries[..task.count], scores);
        }
    }
}
