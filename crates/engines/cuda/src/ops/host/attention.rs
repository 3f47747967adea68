//! Pages and attention of the twin.

use super::super::{Attend, Dtype, PADDING, PAGE_TOKENS, Pages, Rows};
use super::memory::HostBuffer;
use super::{dot, store_row};

/// The block with a position of the sequence that has a table.
pub(super) fn block_of(rows: &Rows<'_, HostBuffer>, table: u32, position: u32) -> usize {
    let page = position as usize / PAGE_TOKENS;
    assert!(page < rows.table_width, "position {position} is in a table");
    let at = table as usize * rows.table_width + page;
    rows.blocks.indices(at, 1)[0] as usize
}

/// Where the page of a head begins, in numbers.
fn page_at(pages: &Pages<'_, HostBuffer>, block: usize, head: usize) -> usize {
    let page = (block * pages.layers + pages.layer) * pages.kv_heads + head;
    page * pages.page_bytes() / pages.dtype.bytes()
}

/// Puts a token's keys and values of all heads into its place.
pub(super) fn store(
    pages: &Pages<'_, HostBuffer>,
    block: usize,
    token: usize,
    (keys, values): (&[f32], &[f32]),
) {
    let size = pages.head_size;
    let scaled = |numbers: &[f32], scale: f32| -> Vec<f32> {
        numbers.iter().map(|number| number / scale).collect()
    };
    let heads = keys.chunks_exact(size).zip(values.chunks_exact(size));
    for (head, (keys, values)) in heads.enumerate() {
        let page = page_at(pages, block, head);
        let keys = scaled(keys, pages.key_scale);
        pages.pool.store(pages.dtype, page + token * size, &keys);
        let values = scaled(values, pages.value_scale);
        for (component, value) in values.into_iter().enumerate() {
            let at = page + (size + component) * PAGE_TOKENS + token;
            pages.pool.store(pages.dtype, at, &[value]);
        }
    }
}

/// Every row must be a sequence's only one, in a span or padding, and spans follow each other.
fn check_rows(op: &Attend<'_, HostBuffer>) {
    let mut next = op.decodes;
    for span in op.prefills {
        assert_eq!(span.first as usize, next, "spans follow each other");
        assert!(span.count > 0, "spans have rows");
        next += span.count as usize;
    }
    assert_eq!(next, op.rows.count, "all rows attend");
}

pub(super) fn attend(op: &Attend<'_, HostBuffer>) {
    check_rows(op);
    let size = op.pages.head_size;
    let width = op.heads * size;
    let group = op.heads / op.pages.kv_heads;
    let positions = op.rows.positions.indices(0, op.rows.count);
    let tables = op.rows.tables.indices(0, op.rows.count);
    for (row, (position, table)) in positions.into_iter().zip(tables).enumerate() {
        if table == PADDING {
            assert!(row < op.decodes, "padding is in front of spans");
            store_row(&op.out, row, vec![0.0; width]);
            continue;
        }
        let sees = position as usize + 1;
        assert!(sees <= op.longest, "{sees} keys are more than the bound");
        // As rotate_store left them: products are BF16, or F32 where activations are.
        let dtype = match op.pages.dtype {
            Dtype::F32 => Dtype::F32,
            Dtype::Bf16 | Dtype::Fp8 => Dtype::Bf16,
        };
        let queries = op.queries.numbers(dtype, row * width, width);
        let blocks: Vec<usize> = (0..sees)
            .step_by(PAGE_TOKENS)
            .map(|position| block_of(&op.rows, table, position as u32))
            .collect();
        let mut out = vec![0.0; width];
        for head in 0..op.heads {
            let query = &queries[head * size..][..size];
            let out = &mut out[head * size..][..size];
            attend_head(op, (&blocks, sees), (head / group, query), out);
        }
        store_row(&op.out, row, out);
    }
}

/// One query's mean of the values that it sees.
fn attend_head(
    op: &Attend<'_, HostBuffer>,
    (blocks, sees): (&[usize], usize),
    (kv_head, query): (usize, &[f32]),
    out: &mut [f32],
) {
    let size = query.len();
    let page_numbers = 2 * PAGE_TOKENS * size;
    let pages: Vec<Vec<f32>> = blocks
        .iter()
        .map(|block| {
            let at = page_at(&op.pages, *block, kv_head);
            op.pages.pool.numbers(op.pages.dtype, at, page_numbers)
        })
        .collect();
    let scale = f64::from(op.scale) * f64::from(op.pages.key_scale);
    let scores: Vec<f64> = (0..sees)
        .map(|position| {
            let page = &pages[position / PAGE_TOKENS];
            let key = &page[position % PAGE_TOKENS * size..][..size];
            dot(query, key) * scale
        })
        .collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
    let total: f64 = weights.iter().sum();
    for (component, out) in out.iter_mut().enumerate() {
        let values = weights.iter().enumerate().map(|(position, weight)| {
            let page = &pages[position / PAGE_TOKENS];
            let at = (size + component) * PAGE_TOKENS + position % PAGE_TOKENS;
            weight * f64::from(page[at])
        });
        let sum: f64 = values.sum();
        *out = (sum / total) as f32 * op.pages.value_scale;
    }
}
