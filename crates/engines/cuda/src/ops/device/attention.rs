//! Attention: which kernel, in how many parts.

use super::kernels::{many_rows, row_grid, small};
use super::{DeviceOps, arguments, scales_of, unsupported};
use crate::driver::{DeviceBuffer, Grid, Kernel};
use crate::ops::{self, Dtype, OpsError, PAGE_TOKENS, Span};

/// Blocks of `attend_decode.cu` that a multiprocessor is given: two are enough to have all of memory's
/// bandwidth, and more parts only have to be put together again.
pub(super) const BLOCKS_EACH: usize = 2;
/// Blocks of `attend_decode.cu` with heads of 128 that a multiprocessor runs at once: its shared memory
/// has room for no more.
const DECODES_AT_ONCE: usize = 3;
/// Parts of each context where there are more blocks than that.
pub(super) const SPLITS_OF_MANY: usize = 2;
/// A part of less is not worth its start.
const LEAST_PAGES: usize = 8;
/// Rows that the kernel of any shape computes at once, which bounds the memory for its parts.
pub(super) const ROWS_AT_ONCE: usize = 512;
/// Heads of queries to a head of keys that `attend_decode.cu` has room for.
pub(super) const DECODE_GROUP: usize = 8;
/// Components that `attend_any.cu` has room for.
pub(super) const LARGEST_HEAD: usize = 256;
/// Heads begin where a chunk may.
pub(super) const HEAD_STEP: usize = 8;

/// Rows that a block of `attend_prefill.cu` has: heads of one group, of several tokens.
pub(super) const PREFILL_ROWS: usize = 128;
/// Three warpgroups.
const PREFILL_THREADS: usize = 384;
/// What [`Scratch`] grows by, so that it does not grow often.
pub(super) const SCRATCH_STEP: usize = 16 << 20;

/// What attention needs beside its arguments.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Parts of rows: as much memory as the largest step so far needed.
    parts: Option<DeviceBuffer>,
    /// The runs of rows that blocks of `attend_prefill.cu` have. All layers of a step have the same.
    runs: Option<(DeviceBuffer, Vec<Span>)>,
}

/// A run of rows, and in how many parts their contexts are computed.
struct Pass {
    first_row: usize,
    rows: usize,
    splits: usize,
}

pub(super) fn attend(
    device: &mut DeviceOps,
    op: &ops::Attend<'_, DeviceBuffer>,
) -> Result<(), OpsError> {
    let size = op.pages.head_size;
    if !size.is_multiple_of(HEAD_STEP) || size > LARGEST_HEAD {
        return Err(unsupported(format!("heads of {size} components")));
    }
    if op.decodes > 0 {
        let pass = Pass {
            first_row: 0,
            rows: op.decodes,
            splits: decode_splits(
                device.context.multiprocessors(),
                op.longest,
                op.decodes * op.pages.kv_heads,
            ),
        };
        let argument = argument(device, op, &pass)?;
        match fast(&device.kernels.attend_decode, op, DECODE_GROUP) {
            Some(kernel) => {
                let grid = Grid::new([pass.splits, op.pages.kv_heads, pass.rows], 128);
                kernel.launch(grid, argument)?;
            }
            None => any_shape(device, op, &pass, argument)?,
        }
        combine(device, op, &pass, &argument)?;
    }
    if op.rows.count > op.decodes {
        prefill(device, op)?;
    }
    Ok(())
}

fn prefill(device: &mut DeviceOps, op: &ops::Attend<'_, DeviceBuffer>) -> Result<(), OpsError> {
    if fast(&device.kernels.attend_prefill, op, PREFILL_ROWS).is_none() {
        for first_row in (op.decodes..op.rows.count).step_by(ROWS_AT_ONCE) {
            let rows = ROWS_AT_ONCE.min(op.rows.count - first_row);
            let pass = Pass {
                first_row,
                rows,
                splits: splits_of(device, op, rows * op.pages.kv_heads),
            };
            let argument = argument(device, op, &pass)?;
            any_shape(device, op, &pass, argument)?;
            combine(device, op, &pass, &argument)?;
        }
        return Ok(());
    }
    let runs = runs(op);
    let blocks = runs.len() * op.pages.kv_heads;
    let pass = Pass {
        first_row: op.decodes,
        rows: op.rows.count - op.decodes,
        splits: splits_of(device, op, blocks),
    };
    let grid = Grid::new(
        [runs.len(), op.pages.kv_heads, pass.splits],
        PREFILL_THREADS,
    );
    let rows = uploaded(device, runs)?;
    let attend = argument(device, op, &pass)?;
    let whole = whole(device, op, &pass, &attend)?;
    let argument = arguments::Prefill {
        attend,
        rows,
        out: whole.as_ref().map_or(0, |whole| whole.values),
        value_scale: op.pages.value_scale,
    };
    if let Some(kernel) = fast(&device.kernels.attend_prefill, op, PREFILL_ROWS) {
        kernel.launch(grid, argument)?;
    }
    let Some(Whole { quantise, .. }) = whole else {
        return combine(device, op, &pass, &attend);
    };
    match quantise {
        None => Ok(()),
        Some((grid, argument)) => device.kernels.quantise_rows.launch(grid, argument),
    }
}

/// Where rows go whose contexts have one part.
struct Whole {
    values: u64,
    /// What makes activations of them, if they are none yet.
    quantise: Option<(Grid, arguments::Quantise)>,
}

/// Nowhere, if contexts have several parts or rows are too long.
fn whole(
    device: &DeviceOps,
    op: &ops::Attend<'_, DeviceBuffer>,
    pass: &Pass,
    attend: &arguments::Attend,
) -> Result<Option<Whole>, OpsError> {
    let width = op.heads * op.pages.head_size;
    let out = op.out.values.address() + (pass.first_row * width * op.out.dtype.bytes()) as u64;
    let multiprocessors = device.context.multiprocessors();
    let grid = many_rows(multiprocessors, pass.rows, width).filter(|_| pass.splits == 1);
    let Some(grid) = grid else {
        return Ok(None);
    };
    if op.out.dtype == Dtype::Bf16 {
        let quantise = None;
        return Ok(Some(Whole {
            values: out,
            quantise,
        }));
    }
    let quantise = arguments::Quantise {
        values: attend.sums,
        out,
        out_scales: scales_of(&op.out)? + 4 * pass.first_row as u64,
        width: small(width)?,
        rows: small(pass.rows)?,
    };
    Ok(Some(Whole {
        values: attend.sums,
        quantise: Some((grid, quantise)),
    }))
}

fn splits_of(device: &DeviceOps, op: &ops::Attend<'_, DeviceBuffer>, blocks: usize) -> usize {
    splits(device.context.multiprocessors(), op.longest, blocks)
}

/// In how many parts contexts are computed, so that all multiprocessors work.
pub(super) fn splits(multiprocessors: usize, longest: usize, blocks: usize) -> usize {
    let most = most_splits(longest);
    let wanted = BLOCKS_EACH * multiprocessors;
    (wanted / blocks.max(1)).clamp(1, most)
}

/// The same for rows that decode. Blocks that do not all run at once leave multiprocessors idle at the
/// end, the less so the shorter they are: at 64 rows of the 70B shape two parts each save a twelfth.
pub(super) fn decode_splits(multiprocessors: usize, longest: usize, blocks: usize) -> usize {
    match blocks > DECODES_AT_ONCE * multiprocessors {
        true => SPLITS_OF_MANY.min(most_splits(longest)),
        false => splits(multiprocessors, longest, blocks),
    }
}

fn most_splits(longest: usize) -> usize {
    (longest.div_ceil(PAGE_TOKENS) / LEAST_PAGES).max(1)
}

/// What all kernels of a pass are given.
fn argument(
    device: &mut DeviceOps,
    op: &ops::Attend<'_, DeviceBuffer>,
    pass: &Pass,
) -> Result<arguments::Attend, OpsError> {
    let places = pass.rows * pass.splits * op.heads;
    let (stats_at, bytes) = parts_of(places, op.pages.head_size);
    let parts = parts(device, bytes)?;
    let mut argument = arguments::Attend::new(op)?;
    argument.sums = parts;
    argument.stats = parts + stats_at as u64;
    argument.first_row = small(pass.first_row)?;
    Ok(argument)
}

/// Where the statistics of so many parts begin, behind their sums, and where they end.
pub(super) fn parts_of(places: usize, head_size: usize) -> (usize, usize) {
    let stats_at = (places * head_size * 4).next_multiple_of(ops::ALIGNMENT);
    (stats_at, stats_at + places * 8)
}

fn any_shape(
    device: &DeviceOps,
    op: &ops::Attend<'_, DeviceBuffer>,
    pass: &Pass,
    argument: arguments::Attend,
) -> Result<(), OpsError> {
    let kernel = device.kernels.attend_any.of(op.pages.dtype)?;
    kernel.launch(Grid::new([pass.splits, op.heads, pass.rows], 32), argument)
}

fn combine(
    device: &DeviceOps,
    op: &ops::Attend<'_, DeviceBuffer>,
    pass: &Pass,
    argument: &arguments::Attend,
) -> Result<(), OpsError> {
    let combine = arguments::Combine {
        sums: argument.sums,
        stats: argument.stats,
        out: op.out.values.address(),
        out_scales: scales_of(&op.out)?,
        splits: small(pass.splits)?,
        heads: small(op.heads)?,
        head_size: small(op.pages.head_size)?,
        first_row: argument.first_row,
        value_scale: op.pages.value_scale,
    };
    let kernel = device.kernels.combine.of(op.out.dtype)?;
    kernel.launch(row_grid(pass.rows, op.heads * op.pages.head_size)?, combine)
}

/// The kernel for this size of heads, if there is one and a group of heads has room in it.
fn fast<'a>(
    kernels: &'a [(usize, Kernel)],
    op: &ops::Attend<'_, DeviceBuffer>,
    largest_group: usize,
) -> Option<&'a Kernel> {
    if !has_room(op.pages.dtype, op.heads / op.pages.kv_heads, largest_group) {
        return None;
    }
    let of_size = |(size, _): &&(usize, Kernel)| *size == op.pages.head_size;
    kernels.iter().find(of_size).map(|(_, kernel)| kernel)
}

/// Whether a fast kernel reads such pages and has room for a group of heads.
pub(super) fn has_room(pages: Dtype, group: usize, largest_group: usize) -> bool {
    pages == Dtype::Fp8 && group <= largest_group
}

/// Spans cut into what a block has room for.
fn runs(op: &ops::Attend<'_, DeviceBuffer>) -> Vec<Span> {
    let room = (PREFILL_ROWS / (op.heads / op.pages.kv_heads)) as u32;
    let cut = |span: &Span| {
        let (first, end) = (span.first, span.first + span.count);
        (first..end).step_by(room as usize).map(move |first| Span {
            first,
            count: room.min(end - first),
        })
    };
    op.prefills.iter().flat_map(cut).collect()
}

/// The address of runs on the device, which has those of the layer before.
fn uploaded(device: &mut DeviceOps, runs: Vec<Span>) -> Result<u64, OpsError> {
    if let Some((buffer, known)) = &device.scratch.runs
        && *known == runs
    {
        return Ok(buffer.address());
    }
    if device.recording {
        return Err(OpsError::Call {
            call: "recording",
            detail: "a recorded step has no prompts".to_owned(),
        });
    }
    let bytes: Vec<u8> = runs
        .iter()
        .flat_map(|run| [run.first.to_le_bytes(), run.count.to_le_bytes()])
        .flatten()
        .collect();
    // Steps of many lengths would otherwise allocate each time, which waits for the device.
    let room = device.scratch.runs.take().map(|(buffer, _)| buffer);
    let buffer = match room {
        Some(buffer) if buffer.bytes() >= bytes.len() => buffer,
        _ => DeviceBuffer::allocate(&device.context, bytes.len().next_power_of_two())?,
    };
    buffer.write(0, &bytes)?;
    let address = buffer.address();
    device.scratch.runs = Some((buffer, runs));
    Ok(address)
}

/// The address of memory for parts, which nothing else uses until the next operation.
fn parts(device: &mut DeviceOps, bytes: usize) -> Result<u64, OpsError> {
    if let Some(buffer) = &device.scratch.parts
        && buffer.bytes() >= bytes
    {
        return Ok(buffer.address());
    }
    if device.recording {
        return Err(OpsError::Call {
            call: "recording",
            detail: "attention needs more memory than when it was first run".to_owned(),
        });
    }
    // What was recorded uses the memory that is given back here.
    device.graphs.clear();
    device.scratch.parts = None;
    let buffer = DeviceBuffer::allocate(&device.context, bytes.next_multiple_of(SCRATCH_STEP))?;
    let address = buffer.address();
    device.scratch.parts = Some(buffer);
    Ok(address)
}
