//! The kernels, by what they compute and store.

use std::ffi::CStr;
use std::sync::Arc;

use super::unsupported;
use crate::driver::{Context, Grid, Kernel, Module};
use crate::ops::{Dtype, OpsError, PAGE_TOKENS};

macro_rules! cubin {
    ($name:literal) => {
        include_bytes!(concat!("../../../kernels/sm_90a/", $name, ".cubin"))
    };
}

/// Numbers of a chunk, chunks of a thread, threads of a block, blocks of a row: as `numbers.cuh` has them.
const CHUNK: usize = 8;
const KEPT: usize = 4;
const ROW_THREADS: usize = 256;
const ROW_BLOCKS: usize = 8;
/// Numbers of the longest row.
pub(super) const LARGEST_ROW: usize = CHUNK * KEPT * ROW_THREADS * ROW_BLOCKS;

/// Sizes of heads that the fast kernels of attention are compiled for.
pub(super) const FAST_HEADS: [usize; 2] = [64, 128];

/// A page of FP8.
const fn page_bytes(head_size: usize) -> usize {
    2 * PAGE_TOKENS * head_size
}

/// Shared memory of `attend_decode.cu`: four warps with two pages each.
const fn decode_bytes(head_size: usize) -> usize {
    4 * 2 * page_bytes(head_size)
}

/// Shared memory of `attend_prefill.cu`: three tiles of two pages, four as F16 that begin at a multiple of
/// 1,024, and eleven barriers.
const fn prefill_bytes(head_size: usize) -> usize {
    let tile = 2 * page_bytes(head_size);
    3 * tile + 4 * 2 * tile + 1024 + 11 * 8
}

/// All of them, loaded.
#[derive(Debug)]
pub(super) struct Kernels {
    pub(super) embed: ByDtype,
    pub(super) norm: ByDtype,
    pub(super) gate: ByDtype,
    pub(super) gate_rows: ByDtype,
    pub(super) rotate_store: ByDtype,
    /// By head size.
    pub(super) rotate_store_rows: [(usize, ByDtype); 2],
    pub(super) attend_any: ByDtype,
    /// By head size.
    pub(super) attend_decode: [(usize, Kernel); 2],
    pub(super) attend_prefill: [(usize, Kernel); 2],
    pub(super) combine: ByDtype,
    pub(super) quantise_rows: Kernel,
    pub(super) gemm: ByDtypes,
    pub(super) fill_random: ByDtype,
    pub(super) draw: Kernel,
}

impl Kernels {
    pub(super) fn load(context: &Arc<Context>) -> Result<Self, OpsError> {
        let load = |cubin: &[u8]| Module::load(context, cubin);
        let (gate, combine) = (load(cubin!("gate"))?, load(cubin!("combine"))?);
        let rotate_store = load(cubin!("rotate_store"))?;
        let of =
            |module: &Arc<Module>, bf16, fp8| ByDtype::new(module, [None, Some(bf16), Some(fp8)]);
        let gemm = load(cubin!("gemm_any"))?;
        let decode = load(cubin!("attend_decode"))?;
        let prefill = load(cubin!("attend_prefill"))?;
        Ok(Self {
            // Embeddings stay BF16 beside FP8.
            embed: ByDtype::new(
                &load(cubin!("embed"))?,
                [Some(c"embed_f32"), Some(c"embed_bf16"), None],
            )?,
            norm: of(&load(cubin!("norm"))?, c"norm_bf16", c"norm_fp8")?,
            gate: of(&gate, c"gate_bf16", c"gate_fp8")?,
            gate_rows: of(&gate, c"gate_rows_bf16", c"gate_rows_fp8")?,
            rotate_store: of(&rotate_store, c"rotate_store_bf16", c"rotate_store_fp8")?,
            rotate_store_rows: [
                (
                    FAST_HEADS[0],
                    of(
                        &rotate_store,
                        c"rotate_store_rows_bf16_64",
                        c"rotate_store_rows_fp8_64",
                    )?,
                ),
                (
                    FAST_HEADS[1],
                    of(
                        &rotate_store,
                        c"rotate_store_rows_bf16_128",
                        c"rotate_store_rows_fp8_128",
                    )?,
                ),
            ],
            attend_any: of(
                &load(cubin!("attend_any"))?,
                c"attend_any_bf16",
                c"attend_any_fp8",
            )?,
            attend_decode: by_head(
                &decode,
                [c"attend_decode_64", c"attend_decode_128"],
                decode_bytes,
            )?,
            attend_prefill: by_head(
                &prefill,
                [c"attend_prefill_64", c"attend_prefill_128"],
                prefill_bytes,
            )?,
            combine: of(&combine, c"combine_bf16", c"combine_fp8")?,
            quantise_rows: combine.kernel(c"quantise_rows", 0)?,
            gemm: ByDtypes {
                bf16: ByDtype::new(
                    &gemm,
                    [Some(c"gemm_bf16_f32"), Some(c"gemm_bf16_bf16"), None],
                )?,
                fp8: ByDtype::new(&gemm, [Some(c"gemm_fp8_f32"), Some(c"gemm_fp8_bf16"), None])?,
            },
            fill_random: ByDtype::new(
                &load(cubin!("fill_random"))?,
                [
                    Some(c"fill_random_f32"),
                    Some(c"fill_random_bf16"),
                    Some(c"fill_random_fp8"),
                ],
            )?,
            draw: load(cubin!("draw"))?.kernel(c"draw", 0)?,
        })
    }
}

/// A kernel for each of [`FAST_HEADS`], with its shared memory.
fn by_head(
    module: &Arc<Module>,
    names: [&CStr; 2],
    shared_bytes: fn(usize) -> usize,
) -> Result<[(usize, Kernel); 2], OpsError> {
    let kernel = |index: usize| {
        let size = FAST_HEADS[index];
        let kernel = module.kernel(names[index], shared_bytes(size))?;
        Ok::<_, OpsError>((size, kernel))
    };
    Ok([kernel(0)?, kernel(1)?])
}

/// One kernel for each way to store what it reads or writes.
#[derive(Debug)]
pub(super) struct ByDtype {
    f32: Option<Kernel>,
    bf16: Option<Kernel>,
    fp8: Option<Kernel>,
}

impl ByDtype {
    /// By the names of those for F32, BF16 and FP8. None of them has attention's shared memory: it needs
    /// no more than a query's.
    fn new(module: &Arc<Module>, names: [Option<&CStr>; 3]) -> Result<Self, OpsError> {
        let [f32, bf16, fp8] =
            names.map(|name| name.map(|name| module.kernel(name, 0)).transpose());
        Ok(Self {
            f32: f32?,
            bf16: bf16?,
            fp8: fp8?,
        })
    }

    pub(super) fn of(&self, dtype: Dtype) -> Result<&Kernel, OpsError> {
        let kernel = match dtype {
            Dtype::F32 => &self.f32,
            Dtype::Bf16 => &self.bf16,
            Dtype::Fp8 => &self.fp8,
        };
        kernel
            .as_ref()
            .ok_or_else(|| unsupported(format!("numbers stored as {dtype:?}")))
    }
}

/// By what is read, then by what is written.
#[derive(Debug)]
pub(super) struct ByDtypes {
    bf16: ByDtype,
    fp8: ByDtype,
}

impl ByDtypes {
    pub(super) fn of(&self, from: Dtype, to: Dtype) -> Result<&Kernel, OpsError> {
        match from {
            Dtype::Bf16 => self.bf16.of(to),
            Dtype::Fp8 => self.fp8.of(to),
            Dtype::F32 => Err(unsupported("products of F32".to_owned())),
        }
    }
}

/// How the kernels on whole rows are laid out: with few rows each has several blocks, so that more of
/// the GPU works; with many, one.
pub(super) fn row_grid(rows: usize, width: usize) -> Result<Grid, OpsError> {
    let chunks = width.div_ceil(CHUNK);
    let least = chunks.div_ceil(KEPT * ROW_THREADS);
    let most = match rows {
        ..=16 => 8,
        17..=32 => 4,
        33..=64 => 2,
        _ => 1,
    };
    // A block with less than four warps' work is not worth its start.
    let cluster = (chunks / 128).clamp(1, most).max(least).next_power_of_two();
    if width > LARGEST_ROW {
        return Err(unsupported(format!("rows of {width} numbers")));
    }
    let threads = chunks
        .div_ceil(cluster)
        .clamp(1, ROW_THREADS)
        .next_multiple_of(32);
    Ok(Grid {
        blocks: [rows * cluster, 1, 1],
        threads,
        cluster,
    })
}

/// From so many rows on, the kernels on many rows are used.
pub(super) const MANY_ROWS: usize = 65;
/// Threads of `quantise_rows`: of a block at most, and of a multiprocessor.
const QUANTISE_THREADS: usize = 1024;
const MANY_THREADS: usize = 2048;
/// Threads of a block of `gate_rows`, at most.
const GATE_THREADS: usize = 448;
/// Blocks of `gate_rows`: some ten times what runs at once, so that none waits long for the last one.
const GATE_BLOCKS: usize = 2048;
/// Rows that a cluster of `gate_rows` takes at a time.
const GATE_ROWS: usize = 2;
/// Heads and rows of a block of `rotate_store_rows`.
const TILE_HEADS: usize = 4;
const TILE_ROWS: usize = 32;

/// How `quantise_rows` is laid out, if it has room for such rows.
pub(super) fn many_rows(multiprocessors: usize, rows: usize, width: usize) -> Option<Grid> {
    if !width.is_multiple_of(CHUNK) || width > QUANTISE_THREADS * CHUNK {
        return None;
    }
    let threads = (width / CHUNK).next_multiple_of(32);
    let blocks = rows.min(multiprocessors * (MANY_THREADS / threads));
    Some(Grid::new([blocks, 1, 1], threads))
}

/// The same for `gate_rows`.
pub(super) fn many_gates(rows: usize, width: usize) -> Option<Grid> {
    let chunks = width.div_ceil(CHUNK);
    let cluster = chunks.div_ceil(GATE_THREADS).next_power_of_two();
    if rows < MANY_ROWS || !width.is_multiple_of(CHUNK) || cluster > ROW_BLOCKS {
        return None;
    }
    Some(Grid {
        blocks: [
            rows.div_ceil(GATE_ROWS).min(GATE_BLOCKS / cluster) * cluster,
            1,
            1,
        ],
        threads: chunks.div_ceil(cluster).next_multiple_of(32),
        cluster,
    })
}

/// The same for `rotate_store_rows`.
pub(super) fn many_heads(rows: usize, heads: usize, head_size: usize) -> Grid {
    let blocks = [heads.div_ceil(TILE_HEADS), rows.div_ceil(TILE_ROWS), 1];
    Grid::new(blocks, TILE_ROWS * head_size / 16)
}

/// A size as kernels have it.
pub(super) fn small(size: usize) -> Result<u32, OpsError> {
    u32::try_from(size).map_err(|_| unsupported(format!("a size of {size}")))
}
