//! A model with random weights, and its steps.

mod prepare;

use cuda::ops::{
    Activations, Attend, Draw, Dtype, Embed, FillRandom, Gate, Gemm, Norm, Ops, OpsError,
    PAGE_TOKENS, Pages, Pairs, Product, RecordKey, RotateStore, Rows, Span, Weight,
};

use super::draw;
use super::indices::{indices, put_indices};
use super::shape::Shape;

/// What of a step is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Step,
    Products,
    Head,
    Attention,
    Glue,
}

impl Part {
    fn has(self, part: Self) -> bool {
        self == Self::Step || self == part
    }
}

/// What a step computes.
#[derive(Clone, Copy)]
struct Pass<'a> {
    rows: usize,
    outputs: usize,
    prefills: &'a [Span],
    longest: usize,
    part: Part,
}

struct Layer<B> {
    qkv: Weight<B>,
    out: Weight<B>,
    gate_up: Weight<B>,
    down: Weight<B>,
}

/// Rows of FP8 and their scales.
struct Quantised<B> {
    values: B,
    scales: B,
}

impl<B> Quantised<B> {
    fn activations(&self) -> Activations<'_, B> {
        Activations {
            values: &self.values,
            dtype: Dtype::Fp8,
            scales: Some(&self.scales),
        }
    }

    /// A product of these rows and `weight`.
    fn product<'a>(&'a self, values: &'a B, weight: &'a Weight<B>) -> Product<'a, B> {
        Product {
            values,
            dtype: Dtype::Bf16,
            row_scales: Some(&self.scales),
            column_scales: weight.scales.as_ref(),
        }
    }
}

/// A model and the memory of its steps.
pub(crate) struct Model<O: Ops> {
    pub(crate) shape: &'static Shape,
    embedding: Weight<O::Buffer>,
    head: Weight<O::Buffer>,
    layers: Vec<Layer<O::Buffer>>,
    norm: O::Buffer,
    angles: O::Buffer,
    pool: O::Buffer,
    table_width: usize,
    blocks: O::Buffer,
    positions: O::Buffer,
    tables: O::Buffer,
    tokens: O::Buffer,
    residual: O::Buffer,
    normed: Quantised<O::Buffer>,
    attended: Quantised<O::Buffer>,
    gated: Quantised<O::Buffer>,
    last: O::Buffer,
    /// Products take turns: none is read while the next is made.
    wide: O::Buffer,
    narrow: O::Buffer,
    queries: O::Buffer,
    logits: O::Buffer,
    draws: O::Buffer,
}

impl<O: Ops> Model<O> {
    pub(crate) fn new(
        ops: &mut O,
        shape: &'static Shape,
        batch: usize,
        longest: usize,
        prompt: usize,
    ) -> Result<Self, OpsError> {
        let rows = batch.max(prompt);
        let mut seed = 0;
        let mut layers = Vec::with_capacity(shape.layers);
        for _ in 0..shape.layers {
            let mut fp8 = |outputs, inputs| weight(ops, Dtype::Fp8, (outputs, inputs), &mut seed);
            layers.push(Layer {
                qkv: fp8(shape.qkv(), shape.hidden)?,
                out: fp8(shape.hidden, shape.queries())?,
                gate_up: fp8(2 * shape.intermediate, shape.hidden)?,
                down: fp8(shape.hidden, shape.intermediate)?,
            });
        }
        let vocabulary = (shape.vocabulary, shape.hidden);
        let table_width = longest.div_ceil(PAGE_TOKENS);
        let blocks = batch * table_width;
        let pool_bytes = blocks * shape.cached_bytes(PAGE_TOKENS);
        let quantised = |ops: &mut O, width: usize| -> Result<_, OpsError> {
            Ok(Quantised {
                values: ops.allocate(rows * width)?,
                scales: ops.allocate(rows * 4)?,
            })
        };
        let model = Self {
            shape,
            embedding: weight(ops, Dtype::Bf16, vocabulary, &mut seed)?,
            head: weight(ops, Dtype::Bf16, vocabulary, &mut seed)?,
            layers,
            norm: ones(ops, shape.hidden, 1.0)?,
            angles: ones(
                ops,
                longest * shape.head_size,
                std::f32::consts::FRAC_1_SQRT_2,
            )?,
            pool: ops.allocate(pool_bytes)?,
            table_width,
            blocks: indices(ops, &shuffled(blocks))?,
            positions: ops.allocate(rows * 4)?,
            tables: ops.allocate(rows * 4)?,
            tokens: ops.allocate(rows * 4)?,
            residual: ops.allocate(rows * shape.hidden * 4)?,
            normed: quantised(ops, shape.hidden)?,
            attended: quantised(ops, shape.queries())?,
            gated: quantised(ops, shape.intermediate)?,
            last: ops.allocate(batch * shape.hidden * 2)?,
            wide: ops.allocate(rows * shape.qkv().max(2 * shape.intermediate) * 2)?,
            narrow: ops.allocate(rows * shape.hidden * 2)?,
            queries: ops.allocate(rows * shape.queries() * 2)?,
            logits: ops.allocate(batch * shape.vocabulary * 4)?,
            draws: draw::rows(ops, batch, draw::LIKELIEST)?,
        };
        ops.fill_random(FillRandom {
            to: &model.pool,
            dtype: Dtype::Fp8,
            count: pool_bytes,
            seed: 99,
            deviation: 1.0,
        })?;
        Ok(model)
    }

    /// Rows that distributions are wanted of.
    fn last(&self) -> Activations<'_, O::Buffer> {
        Activations {
            values: &self.last,
            dtype: Dtype::Bf16,
            scales: None,
        }
    }

    /// Puts a batch's sequences where a step finds them: each has its last token to compute.
    pub(crate) fn place(&self, ops: &mut O, batch: usize, context: usize) -> Result<(), OpsError> {
        let tables: Vec<u32> = (0..batch as u32).collect();
        put_indices(ops, &self.positions, &vec![context as u32 - 1; batch])?;
        put_indices(ops, &self.tables, &tables)?;
        put_indices(ops, &self.tokens, &tables)
    }

    /// The likeliest tokens, once all is done.
    pub(crate) fn tokens(&self, ops: &mut O, count: usize) -> Result<Vec<u32>, OpsError> {
        let mut bytes = vec![0; count * 4];
        ops.read(&self.tokens, 0, &mut bytes)?;
        Ok(bytes
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes))
            .collect())
    }

    pub(crate) fn decode(
        &self,
        ops: &mut O,
        batch: usize,
        context: usize,
        part: Part,
    ) -> Result<(), OpsError> {
        // Parts are different steps: the number of outputs, which no other step has, tells them apart.
        let key = RecordKey {
            rows: batch,
            outputs: 1000 + part as usize,
            longest: context,
        };
        ops.recorded(key, &mut |ops: &mut O| {
            self.step(
                ops,
                Pass {
                    rows: batch,
                    outputs: batch,
                    prefills: &[],
                    longest: context,
                    part,
                },
            )
        })
    }

    /// Puts a prompt where a step finds it.
    pub(crate) fn place_prompt(&self, ops: &mut O, prompt: usize) -> Result<(), OpsError> {
        let positions: Vec<u32> = (0..prompt as u32).collect();
        put_indices(ops, &self.positions, &positions)?;
        put_indices(ops, &self.tables, &vec![0; prompt])?;
        // Numbers that are all alike take less power, and the device is then faster.
        let tokens = (0..prompt).map(|row| (row * 7919 % self.shape.vocabulary) as u32);
        put_indices(ops, &self.tokens, &tokens.collect::<Vec<_>>())
    }

    pub(crate) fn prefill(&self, ops: &mut O, prompt: usize, part: Part) -> Result<(), OpsError> {
        let span = Span {
            first: 0,
            count: prompt as u32,
        };
        let pass = Pass {
            rows: prompt,
            outputs: 1,
            prefills: &[span],
            longest: prompt,
            part,
        };
        self.step(ops, pass)
    }

    fn step(&self, ops: &mut O, pass: Pass<'_>) -> Result<(), OpsError> {
        let Pass { rows, part, .. } = pass;
        if part.has(Part::Glue) {
            ops.embed(Embed {
                tokens: &self.tokens,
                rows,
                table: &self.embedding,
                residual: &self.residual,
            })?;
        }
        let mut addition = None;
        for index in 0..self.shape.layers {
            let layer = &self.layers[index];
            self.attention(ops, pass, (index, layer), addition)?;
            addition = Some(self.gated.product(&self.narrow, &layer.down));
            if part.has(Part::Glue) {
                let added = self.attended.product(&self.narrow, &layer.out);
                self.norm(ops, rows, Some(added))?;
            }
            if part.has(Part::Products) {
                self.gemm(ops, rows, &self.normed, (&layer.gate_up, &self.wide))?;
            }
            if part.has(Part::Glue) {
                ops.gate(Gate {
                    rows,
                    width: self.shape.intermediate,
                    gate_up: self.normed.product(&self.wide, &layer.gate_up),
                    out: self.gated.activations(),
                })?;
            }
            if part.has(Part::Products) {
                self.gemm(ops, rows, &self.gated, (&layer.down, &self.narrow))?;
            }
        }
        self.answer(ops, pass, addition)
    }

    fn attention(
        &self,
        ops: &mut O,
        pass: Pass<'_>,
        (index, layer): (usize, &Layer<O::Buffer>),
        addition: Option<Product<'_, O::Buffer>>,
    ) -> Result<(), OpsError> {
        let Pass { rows, part, .. } = pass;
        if part.has(Part::Glue) {
            self.norm(ops, rows, addition)?;
        }
        if part.has(Part::Products) {
            self.gemm(ops, rows, &self.normed, (&layer.qkv, &self.wide))?;
        }
        let pages = Pages {
            pool: &self.pool,
            dtype: Dtype::Fp8,
            layers: self.shape.layers,
            layer: index,
            kv_heads: self.shape.kv_heads,
            head_size: self.shape.head_size,
            key_scale: 1.0,
            value_scale: 1.0,
        };
        if part.has(Part::Glue) {
            ops.rotate_store(RotateStore {
                rows: self.rows(rows),
                qkv: self.normed.product(&self.wide, &layer.qkv),
                bias: None,
                heads: self.shape.heads,
                angles: &self.angles,
                pairs: Pairs::Halves,
                pages,
                queries: &self.queries,
            })?;
        }
        if part.has(Part::Attention) {
            ops.attend(Attend {
                rows: self.rows(rows),
                decodes: if pass.prefills.is_empty() { rows } else { 0 },
                prefills: pass.prefills,
                longest: pass.longest,
                heads: self.shape.heads,
                pages,
                queries: &self.queries,
                scale: 1.0 / (self.shape.head_size as f32).sqrt(),
                out: self.attended.activations(),
            })?;
        }
        if part.has(Part::Products) {
            self.gemm(ops, rows, &self.attended, (&layer.out, &self.narrow))?;
        }
        Ok(())
    }

    fn answer(
        &self,
        ops: &mut O,
        pass: Pass<'_>,
        addition: Option<Product<'_, O::Buffer>>,
    ) -> Result<(), OpsError> {
        let Pass {
            rows,
            outputs,
            part,
            ..
        } = pass;
        let last = self.last();
        if part.has(Part::Glue) {
            self.norm(ops, rows, addition)?;
            ops.norm(Norm {
                rows: outputs,
                out: last,
                ..self.norm_of(None)
            })?;
        }
        if part.has(Part::Head) {
            let (weight, out) = (&self.head, &self.logits);
            ops.gemm(Gemm {
                rows: outputs,
                input: last,
                weight,
                out,
                out_dtype: Dtype::F32,
            })?;
            ops.draw(Draw {
                rows: outputs,
                vocabulary: self.shape.vocabulary,
                logits: &self.logits,
                draws: &self.draws,
                tokens: &self.tokens,
            })?;
        }
        Ok(())
    }

    fn rows(&self, count: usize) -> Rows<'_, O::Buffer> {
        Rows {
            count,
            positions: &self.positions,
            tables: &self.tables,
            blocks: &self.blocks,
            table_width: self.table_width,
        }
    }

    fn norm(
        &self,
        ops: &mut O,
        rows: usize,
        addition: Option<Product<'_, O::Buffer>>,
    ) -> Result<(), OpsError> {
        ops.norm(Norm {
            rows,
            ..self.norm_of(addition)
        })
    }

    fn norm_of<'a>(&'a self, addition: Option<Product<'a, O::Buffer>>) -> Norm<'a, O::Buffer> {
        Norm {
            rows: 0,
            width: self.shape.hidden,
            residual: &self.residual,
            addition,
            weight: &self.norm,
            epsilon: 1e-5,
            out: self.normed.activations(),
        }
    }

    fn gemm(
        &self,
        ops: &mut O,
        rows: usize,
        input: &Quantised<O::Buffer>,
        (weight, out): (&Weight<O::Buffer>, &O::Buffer),
    ) -> Result<(), OpsError> {
        ops.gemm(Gemm {
            rows,
            input: input.activations(),
            weight,
            out,
            out_dtype: Dtype::Bf16,
        })
    }
}

/// Random numbers; with FP8 such that a row times its scales has about the deviation of the input.
fn weight<O: Ops>(
    ops: &mut O,
    dtype: Dtype,
    (outputs, inputs): (usize, usize),
    seed: &mut u64,
) -> Result<Weight<O::Buffer>, OpsError> {
    *seed += 1;
    let count = outputs * inputs;
    let values = ops.allocate(count * dtype.bytes())?;
    let spread = 1.0 / (inputs as f32).sqrt();
    let is_fp8 = dtype == Dtype::Fp8;
    let deviation = if is_fp8 { 1.0 } else { spread };
    ops.fill_random(FillRandom {
        to: &values,
        dtype,
        count,
        seed: *seed,
        deviation,
    })?;
    let scales = if is_fp8 {
        Some(ones(ops, outputs, spread)?)
    } else {
        None
    };
    Ok(Weight {
        values,
        dtype,
        outputs,
        inputs,
        scales,
    })
}

fn ones<O: Ops>(ops: &mut O, count: usize, one: f32) -> Result<O::Buffer, OpsError> {
    let buffer = ops.allocate(count * 4)?;
    ops.write(&buffer, 0, &one.to_le_bytes().repeat(count))?;
    Ok(buffer)
}

/// Blocks in an order that no copy engine can guess.
fn shuffled(count: usize) -> Vec<u32> {
    let mut blocks: Vec<u32> = (0..count as u32).collect();
    let mut state = 1u64;
    for i in (1..count).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        blocks.swap(i, (state >> 33) as usize % (i + 1));
    }
    blocks
}
