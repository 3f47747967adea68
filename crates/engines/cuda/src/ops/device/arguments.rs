//! What kernels are given: structures laid out as the sources in `kernels/` have them, field by field.

use super::kernels::small;
use super::scales_of;
use crate::driver::DeviceBuffer;
use crate::gemm::{Operands, Shape};
use crate::ops::{self, OpsError, Pages, Product, Rows};

/// The address of what may be absent.
fn address(buffer: Option<&DeviceBuffer>) -> u64 {
    buffer.map_or(0, DeviceBuffer::address)
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Embed {
    tokens: u64,
    table: u64,
    scales: u64,
    residual: u64,
    width: u32,
    vocabulary: u32,
}

impl Embed {
    pub(super) fn new(op: &ops::Embed<'_, DeviceBuffer>) -> Result<Self, OpsError> {
        Ok(Self {
            tokens: op.tokens.address(),
            table: op.table.values.address(),
            scales: address(op.table.scales.as_ref()),
            residual: op.residual.address(),
            width: small(op.table.inputs)?,
            vocabulary: small(op.table.outputs)?,
        })
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Scaled {
    values: u64,
    row_scales: u64,
    column_scales: u64,
}

impl Scaled {
    fn new(product: Option<&Product<'_, DeviceBuffer>>) -> Self {
        Self {
            values: address(product.map(|product| product.values)),
            row_scales: address(product.and_then(|product| product.row_scales)),
            column_scales: address(product.and_then(|product| product.column_scales)),
        }
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Norm {
    residual: u64,
    addition: Scaled,
    weight: u64,
    out: u64,
    out_scales: u64,
    width: u32,
    epsilon: f32,
}

impl Norm {
    pub(super) fn new(op: &ops::Norm<'_, DeviceBuffer>) -> Result<Self, OpsError> {
        Ok(Self {
            residual: op.residual.address(),
            addition: Scaled::new(op.addition.as_ref()),
            weight: op.weight.address(),
            out: op.out.values.address(),
            out_scales: scales_of(&op.out)?,
            width: small(op.width)?,
            epsilon: op.epsilon,
        })
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Gate {
    gate_up: Scaled,
    out: u64,
    out_scales: u64,
    width: u32,
    rows: u32,
}

impl Gate {
    pub(super) fn new(op: &ops::Gate<'_, DeviceBuffer>) -> Result<Self, OpsError> {
        Ok(Self {
            gate_up: Scaled::new(Some(&op.gate_up)),
            out: op.out.values.address(),
            out_scales: scales_of(&op.out)?,
            width: small(op.width)?,
            rows: small(op.rows)?,
        })
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Gemm {
    input: u64,
    weight: u64,
    out: u64,
    inputs: u32,
    outputs: u32,
}

impl Gemm {
    pub(super) fn new(operands: Operands, shape: Shape) -> Result<Self, OpsError> {
        Ok(Self {
            input: operands.input,
            weight: operands.weight,
            out: operands.out,
            inputs: small(shape.inputs)?,
            outputs: small(shape.outputs)?,
        })
    }
}

/// Where rows' tokens are.
#[derive(Clone, Copy)]
#[repr(C)]
struct Places {
    positions: u64,
    tables: u64,
    blocks: u64,
}

impl Places {
    fn new(rows: &Rows<'_, DeviceBuffer>) -> Self {
        Self {
            positions: rows.positions.address(),
            tables: rows.tables.address(),
            blocks: rows.blocks.address(),
        }
    }
}

/// Where a layer's pages are in a block.
#[derive(Clone, Copy)]
#[repr(C)]
struct Layer {
    block_bytes: u64,
    offset: u64,
}

impl Layer {
    fn new(pages: &Pages<'_, DeviceBuffer>) -> Self {
        Self {
            block_bytes: pages.block_bytes() as u64,
            offset: (pages.layer * pages.kv_heads * pages.page_bytes()) as u64,
        }
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RotateStore {
    qkv: Scaled,
    bias: u64,
    angles: u64,
    places: Places,
    queries: u64,
    pool: u64,
    layer: Layer,
    table_width: u32,
    heads: u32,
    kv_heads: u32,
    head_size: u32,
    rows: u32,
    neighbours: u32,
    by_key_scale: f32,
    by_value_scale: f32,
}

impl RotateStore {
    pub(super) fn new(op: &ops::RotateStore<'_, DeviceBuffer>) -> Result<Self, OpsError> {
        Ok(Self {
            qkv: Scaled::new(Some(&op.qkv)),
            bias: address(op.bias),
            angles: op.angles.address(),
            places: Places::new(&op.rows),
            queries: op.queries.address(),
            pool: op.pages.pool.address(),
            layer: Layer::new(&op.pages),
            table_width: small(op.rows.table_width)?,
            heads: small(op.heads)?,
            kv_heads: small(op.pages.kv_heads)?,
            head_size: small(op.pages.head_size)?,
            rows: small(op.rows.count)?,
            neighbours: u32::from(op.pairs == ops::Pairs::Neighbours),
            by_key_scale: 1.0 / op.pages.key_scale,
            by_value_scale: 1.0 / op.pages.value_scale,
        })
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Attend {
    queries: u64,
    pool: u64,
    places: Places,
    pub(super) sums: u64,
    pub(super) stats: u64,
    layer: Layer,
    table_width: u32,
    heads: u32,
    kv_heads: u32,
    head_size: u32,
    pub(super) first_row: u32,
    score_scale: f32,
}

impl Attend {
    pub(super) fn new(op: &ops::Attend<'_, DeviceBuffer>) -> Result<Self, OpsError> {
        Ok(Self {
            queries: op.queries.address(),
            pool: op.pages.pool.address(),
            places: Places::new(&op.rows),
            sums: 0,
            stats: 0,
            layer: Layer::new(&op.pages),
            table_width: small(op.rows.table_width)?,
            heads: small(op.heads)?,
            kv_heads: small(op.pages.kv_heads)?,
            head_size: small(op.pages.head_size)?,
            first_row: 0,
            score_scale: op.scale * op.pages.key_scale * std::f32::consts::LOG2_E,
        })
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Prefill {
    pub(super) attend: Attend,
    /// Runs of rows: the first, and how many.
    pub(super) rows: u64,
    /// Where whole rows go, BF16; parts if nowhere.
    pub(super) out: u64,
    pub(super) value_scale: f32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Quantise {
    pub(super) values: u64,
    pub(super) out: u64,
    pub(super) out_scales: u64,
    pub(super) width: u32,
    pub(super) rows: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Combine {
    pub(super) sums: u64,
    pub(super) stats: u64,
    pub(super) out: u64,
    pub(super) out_scales: u64,
    pub(super) splits: u32,
    pub(super) heads: u32,
    pub(super) head_size: u32,
    pub(super) first_row: u32,
    pub(super) value_scale: f32,
}

/// Steps of a weight in the likeliest's, as an exponent of 2: fewer where all tokens' weights would not
/// fit into 64 bits. `draw.cu` counts on no more.
const WEIGHT_BITS: u32 = 46;

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Draw {
    logits: u64,
    rows: u64,
    tokens: u64,
    unit: f64,
    vocabulary: u32,
}

impl Draw {
    pub(super) fn new(op: &ops::Draw<'_, DeviceBuffer>) -> Result<Self, OpsError> {
        let room = 63 - op.vocabulary.next_power_of_two().ilog2();
        Ok(Self {
            logits: op.logits.address(),
            rows: op.draws.address(),
            tokens: op.tokens.address(),
            unit: (1u64 << room.min(WEIGHT_BITS)) as f64,
            vocabulary: small(op.vocabulary)?,
        })
    }
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct FillRandom {
    to: u64,
    count: u64,
    seed: u64,
    deviation: f32,
}

impl FillRandom {
    pub(super) fn new(op: &ops::FillRandom<'_, DeviceBuffer>) -> Self {
        Self {
            to: op.to.address(),
            count: op.count as u64,
            seed: op.seed,
            deviation: op.deviation,
        }
    }
}
