//! Pages: storing into them, and attending to them.

use cuda::numbers::encode;
use cuda::ops::{
    Attend, Dtype, Ops, OpsError, PADDING, PAGE_TOKENS, Pages, Pairs, Product, RotateStore, Rows,
    Span,
};

use crate::data::{Out, Random, get, poisoned, put, put_bytes, put_indices};

const LAYERS: usize = 2;
const LAYER: usize = 1;
const KEY_SCALE: f32 = 0.5;
const VALUE_SCALE: f32 = 0.25;

/// Heads of queries and of keys, and their size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) size: usize,
}

const fn shape(heads: usize, kv_heads: usize, size: usize) -> Shape {
    Shape {
        heads,
        kv_heads,
        size,
    }
}

const SHAPES: [Shape; 7] = [
    shape(4, 2, 16),
    shape(3, 3, 24),
    shape(9, 3, 64),
    shape(12, 1, 64),
    shape(32, 8, 128),
    shape(16, 2, 128),
    shape(6, 1, 128),
];

/// One sequence's rows of a step: those before them are in pages already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    before: usize,
    rows: usize,
}

const fn sequence(before: usize, rows: usize) -> Sequence {
    Sequence { before, rows }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreCase {
    shape: Shape,
    pub(crate) pages: Dtype,
    pairs: Pairs,
    bias: bool,
    /// Padding where there is none.
    sequences: &'static [Option<Sequence>],
}

pub(crate) fn stores() -> Vec<StoreCase> {
    const FEW: &[Option<Sequence>] = &[
        Some(sequence(40, 1)),
        None,
        Some(sequence(0, 33)),
        Some(sequence(31, 2)),
    ];
    const MANY: &[Option<Sequence>] = &[
        Some(sequence(40, 1)),
        None,
        Some(sequence(0, 70)),
        Some(sequence(31, 2)),
    ];
    const ALIGNED: &[Option<Sequence>] = &[Some(sequence(32, 96)), Some(sequence(0, 65))];
    let mut cases = Vec::new();
    for shape in SHAPES {
        for (pages, pairs, bias) in [
            (Dtype::Bf16, Pairs::Halves, true),
            (Dtype::Fp8, Pairs::Neighbours, false),
            (Dtype::Fp8, Pairs::Halves, false),
        ] {
            cases.extend([FEW, MANY, ALIGNED].map(|sequences| StoreCase {
                shape,
                pages,
                pairs,
                bias,
                sequences,
            }));
        }
    }
    cases
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct AttendCase {
    shape: Shape,
    pages: Dtype,
    pub(crate) out: Dtype,
    /// Each has one row, or is padding.
    decodes: &'static [Option<usize>],
    prefills: &'static [Sequence],
}

pub(crate) fn attends() -> Vec<AttendCase> {
    const DECODES: &[Option<usize>] = &[Some(1), Some(31), Some(32), Some(33), Some(700), None];
    const LONG: &[Option<usize>] = &[Some(4900), Some(17)];
    const PREFILLS: &[Sequence] = &[
        sequence(0, 1),
        sequence(0, 45),
        sequence(77, 130),
        sequence(300, 20),
    ];
    const CHUNK: &[Sequence] = &[sequence(500, 300)];
    // Contexts in one part.
    const WHOLE: &[Sequence] = &[sequence(100, 200), sequence(0, 67)];
    let mut cases = Vec::new();
    for shape in SHAPES {
        for (pages, out) in [
            (Dtype::Bf16, Dtype::Bf16),
            (Dtype::Fp8, Dtype::Fp8),
            (Dtype::Fp8, Dtype::Bf16),
        ] {
            let case = |decodes, prefills| AttendCase {
                shape,
                pages,
                out,
                decodes,
                prefills,
            };
            cases.extend([
                case(DECODES, &[]),
                case(LONG, &[]),
                case(&[], CHUNK),
                case(DECODES, PREFILLS),
                case(&[], WHOLE),
            ]);
        }
    }
    cases
}

/// The rows of a step and where their sequences' pages are.
struct Batch<O: Ops> {
    positions: O::Buffer,
    tables: O::Buffer,
    blocks: O::Buffer,
    table_width: usize,
    count: usize,
}

impl<O: Ops> Batch<O> {
    /// Sequences by how many tokens each has before its rows, and how many rows; without, padding.
    /// Returns block tables too.
    fn new(ops: &mut O, sequences: &[Option<Sequence>]) -> Result<(Self, Vec<Vec<u32>>), OpsError> {
        let pages = |of: Sequence| (of.before + of.rows).div_ceil(PAGE_TOKENS);
        let table_width = sequences
            .iter()
            .flatten()
            .map(|of| pages(*of))
            .max()
            .unwrap_or(1);
        let mut free =
            Random::new(9).shuffled(sequences.iter().flatten().map(|of| pages(*of)).sum());
        let (mut positions, mut tables, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
        for (table, sequence) in sequences.iter().enumerate() {
            let own = match sequence {
                Some(of) => {
                    positions
                        .extend((of.before..of.before + of.rows).map(|position| position as u32));
                    tables.extend(std::iter::repeat_n(table as u32, of.rows));
                    free.split_off(free.len() - pages(*of))
                }
                None => {
                    positions.push(0);
                    tables.push(PADDING);
                    Vec::new()
                }
            };
            blocks.push(own);
        }
        let filled: Vec<u32> = blocks
            .iter()
            .flat_map(|own| {
                own.iter()
                    .copied()
                    .chain(std::iter::repeat(PADDING))
                    .take(table_width)
            })
            .collect();
        let batch = Self {
            count: positions.len(),
            positions: put_indices(ops, &positions)?,
            tables: put_indices(ops, &tables)?,
            blocks: put_indices(ops, &filled)?,
            table_width,
        };
        Ok((batch, blocks))
    }

    fn rows(&self) -> Rows<'_, O::Buffer> {
        Rows {
            count: self.count,
            positions: &self.positions,
            tables: &self.tables,
            blocks: &self.blocks,
            table_width: self.table_width,
        }
    }
}

fn pages_of<B>(shape: Shape, dtype: Dtype, pool: &B) -> Pages<'_, B> {
    let is_fp8 = dtype == Dtype::Fp8;
    Pages {
        pool,
        dtype,
        layers: LAYERS,
        layer: LAYER,
        kv_heads: shape.kv_heads,
        head_size: shape.size,
        key_scale: if is_fp8 { KEY_SCALE } else { 1.0 },
        value_scale: if is_fp8 { VALUE_SCALE } else { 1.0 },
    }
}

impl StoreCase {
    pub(crate) fn run<O: Ops>(&self, ops: &mut O) -> Result<Vec<Vec<f32>>, OpsError> {
        let Shape {
            heads,
            kv_heads,
            size,
        } = self.shape;
        let mut random = Random::new(8);
        let (batch, blocks) = Batch::new(ops, self.sequences)?;
        let width = (heads + 2 * kv_heads) * size;
        let values = put(ops, Dtype::Bf16, &random.numbers(batch.count * width, 1.0))?;
        let row_scales = put(ops, Dtype::F32, &random.scales(batch.count))?;
        let column_scales = put(ops, Dtype::F32, &random.scales(width))?;
        let bias = put(ops, Dtype::F32, &random.numbers(width, 1.0))?;
        let angles: Vec<f32> = (0..128)
            .flat_map(|position| {
                let angle = move |i: usize| position as f32 * 0.7f32.powi(i as i32);
                let cosines = (0..size / 2).map(move |i| angle(i).cos());
                cosines.chain((0..size / 2).map(move |i| angle(i).sin()))
            })
            .collect();
        let angles = put(ops, Dtype::F32, &angles)?;
        let count = blocks.iter().flatten().count() * LAYERS * kv_heads * 2 * PAGE_TOKENS * size;
        let pool = poisoned(ops, count * self.pages.bytes())?;
        let queries = poisoned(ops, batch.count * heads * size * 2)?;
        ops.rotate_store(RotateStore {
            rows: batch.rows(),
            qkv: Product {
                values: &values,
                dtype: Dtype::Bf16,
                row_scales: Some(&row_scales),
                column_scales: Some(&column_scales),
            },
            bias: self.bias.then_some(&bias),
            heads,
            angles: &angles,
            pairs: self.pairs,
            pages: pages_of(self.shape, self.pages, &pool),
            queries: &queries,
        })?;
        Ok(vec![
            get(ops, &queries, Dtype::Bf16, batch.count * heads * size)?,
            get(ops, &pool, self.pages, count)?,
        ])
    }
}

impl AttendCase {
    pub(crate) fn run<O: Ops>(&self, ops: &mut O) -> Result<Vec<Vec<f32>>, OpsError> {
        let Shape { heads, size, .. } = self.shape;
        let decodes = self
            .decodes
            .iter()
            .map(|context| context.map(|context| sequence(context - 1, 1)));
        let sequences: Vec<_> = decodes
            .chain(self.prefills.iter().copied().map(Some))
            .collect();
        let (batch, blocks) = Batch::new(ops, &sequences)?;
        let pool = self.filled_pool(&sequences, &blocks);
        let pool = put_bytes(ops, &pool)?;
        let numbers = Random::new(11).numbers(batch.count * heads * size, 1.5);
        let queries = put(ops, Dtype::Bf16, &numbers)?;
        let out = Out::new(ops, self.out, batch.count, heads * size)?;
        let mut first = self.decodes.len() as u32;
        let mut spans = Vec::new();
        for prefill in self.prefills {
            let count = prefill.rows as u32;
            spans.push(Span { first, count });
            first += count;
        }
        ops.attend(Attend {
            rows: batch.rows(),
            decodes: self.decodes.len(),
            prefills: &spans,
            longest: sequences
                .iter()
                .flatten()
                .map(|of| of.before + of.rows)
                .max()
                .unwrap_or(1),
            heads,
            pages: pages_of(self.shape, self.pages, &pool),
            queries: &queries,
            scale: 1.0 / (size as f32).sqrt(),
            out: out.activations(),
        })?;
        Ok(vec![out.numbers(ops)?])
    }

    /// Pages with random keys and values where a sequence has tokens, and elsewhere what is no number.
    fn filled_pool(&self, sequences: &[Option<Sequence>], blocks: &[Vec<u32>]) -> Vec<u8> {
        let Shape { kv_heads, size, .. } = self.shape;
        let page_numbers = 2 * PAGE_TOKENS * size;
        let mut random = Random::new(10);
        let mut numbers =
            vec![f32::NAN; blocks.iter().flatten().count() * LAYERS * kv_heads * page_numbers];
        for (sequence, own) in sequences.iter().zip(blocks) {
            let context = sequence.map_or(0, |of| of.before + of.rows);
            for (index, block) in own.iter().enumerate() {
                let seen = (context - index * PAGE_TOKENS).min(PAGE_TOKENS);
                for head in 0..kv_heads {
                    let page =
                        ((*block as usize * LAYERS + LAYER) * kv_heads + head) * page_numbers;
                    let page = &mut numbers[page..][..page_numbers];
                    let fresh = random.numbers(page_numbers, 1.5);
                    let (keys, values) = page.split_at_mut(PAGE_TOKENS * size);
                    keys[..seen * size].copy_from_slice(&fresh[..seen * size]);
                    for (row, fresh) in values
                        .chunks_exact_mut(PAGE_TOKENS)
                        .zip(fresh.chunks_exact(PAGE_TOKENS))
                    {
                        row[..seen].copy_from_slice(&fresh[..seen]);
                    }
                }
            }
        }
        let mut bytes = Vec::new();
        encode(self.pages, &numbers, &mut bytes);
        bytes
    }
}
