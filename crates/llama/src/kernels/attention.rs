//! Queries against a cache in blocks.
//!
//! Keys lie with sixteen positions side by side, values with sixteen components: both sums
//! run along the loop. A score is the same sum whichever queries come together and wherever
//! blocks lie.

use super::lanes::{LANES, Lanes};
use super::row::softmax;

/// The keys and values of one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cache {
    /// By block, head, sixteen positions, component: sixteen positions each.
    pub(crate) keys: *const f32,
    /// By block, head, position: the components.
    pub(crate) values: *const f32,
    /// Tokens to a block.
    pub(crate) block_size: usize,
    pub(crate) heads: usize,
    /// Components of a head, and with those that fill up the last lanes.
    pub(crate) head_size: usize,
    pub(crate) padded_head: usize,
}

impl Cache {
    /// Sixteens of positions in a block.
    pub(crate) fn groups(&self) -> usize {
        self.block_size.div_ceil(LANES)
    }

    /// Numbers of a block's keys.
    pub(crate) fn key_numbers(&self) -> usize {
        self.heads * self.groups() * self.head_size * LANES
    }

    /// Numbers of a block's values.
    pub(crate) fn value_numbers(&self) -> usize {
        self.heads * self.block_size * self.padded_head
    }
}

/// One query: where it is, where its output goes, and how many positions it sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) from: *const f32,
    pub(crate) to: *mut f32,
    pub(crate) sees: usize,
}

/// Queries that are computed together.
pub(crate) const TOGETHER: usize = 6;

/// Attends with up to [`TOGETHER`] queries of one sequence to one head of the cache.
/// `scores` has room for `TOGETHER` rows of `stride` numbers, `stride` being whole lanes
/// beyond all that is seen and a block more.
///
/// # Safety
///
/// The processor has the instructions of `L`; all pointers are good for what they stand for.
#[inline(always)]
pub(crate) unsafe fn attend<L: Lanes>(
    cache: &Cache,
    (head, blocks): (usize, &[u32]),
    queries: &[Query],
    (scores, stride): (&mut [f32], usize),
) {
    let most = queries.iter().map(|query| query.sees).max().unwrap_or(0);
    assert!(queries.len() <= TOGETHER && scores.len() >= queries.len() * stride);
    assert!(
        stride >= most.next_multiple_of(cache.block_size) + LANES && stride.is_multiple_of(LANES)
    );
    assert!(blocks.len() * cache.block_size >= most);
    let mut done = 0;
    while done < queries.len() {
        let scores = unsafe { scores.as_mut_ptr().add(done * stride) };
        let rest = &queries[done..];
        macro_rules! group {
            ($n:literal) => {{
                unsafe { score::<L, $n>(cache, (head, blocks), rest, (scores, stride)) };
                done += $n;
            }};
        }
        match (rest.len(), L::ROOMY) {
            (6.., true) => group!(6),
            (3.., _) => group!(3),
            (_, _) => group!(1),
        }
    }
    let scale = 1.0 / (cache.head_size as f32).sqrt();
    let mut sums = [0.0; TOGETHER];
    for (row, (query, sum)) in queries.iter().zip(&mut sums).enumerate() {
        *sum = softmax::<L>(
            &mut scores[row * stride..(row + 1) * stride],
            query.sees,
            scale,
        );
    }
    let scores = scores.as_ptr();
    for first in (0..cache.padded_head).step_by(LANES) {
        let mut done = 0;
        while done < queries.len() {
            let (rest, sums) = (&queries[done..], &sums[done..]);
            let scores = unsafe { scores.add(done * stride) };
            macro_rules! group {
                ($n:literal) => {{
                    let at = (head, first);
                    unsafe { mix::<L, $n>(cache, at, blocks, (rest, sums), (scores, stride)) };
                    done += $n;
                }};
            }
            match (rest.len(), L::ROOMY) {
                (6.., true) => group!(6),
                (3.., _) => group!(3),
                (_, _) => group!(1),
            }
        }
    }
}

/// The products of `N` queries with all keys that one of them sees.
#[inline(always)]
unsafe fn score<L: Lanes, const N: usize>(
    cache: &Cache,
    (head, blocks): (usize, &[u32]),
    queries: &[Query],
    (scores, stride): (*mut f32, usize),
) {
    let most = queries[..N]
        .iter()
        .map(|query| query.sees)
        .max()
        .unwrap_or(0);
    let group_numbers = cache.head_size * LANES;
    for (index, block) in blocks[..most.div_ceil(cache.block_size)].iter().enumerate() {
        let start = index * cache.block_size;
        let groups = (most - start).min(cache.block_size).div_ceil(LANES);
        let keys = *block as usize * cache.key_numbers() + head * cache.groups() * group_numbers;
        for group in 0..groups {
            unsafe {
                let keys = cache.keys.add(keys + group * group_numbers);
                let mut sums = [L::splat(0.0); N];
                for component in 0..cache.head_size {
                    let key = L::load(keys.add(component * LANES));
                    for (sum, query) in sums.iter_mut().zip(queries) {
                        *sum = key.fma(L::splat(*query.from.add(component)), *sum);
                    }
                }
                // A block's last lanes may reach into the next one's place, which comes later.
                for (row, sum) in sums.into_iter().enumerate() {
                    sum.store(scores.add(row * stride + start + group * LANES));
                }
            }
        }
    }
}

/// Sixteen components of the outputs of `N` queries.
#[inline(always)]
unsafe fn mix<L: Lanes, const N: usize>(
    cache: &Cache,
    (head, first): (usize, usize),
    blocks: &[u32],
    (queries, sums): (&[Query], &[f32]),
    (scores, stride): (*const f32, usize),
) {
    let most = queries[..N]
        .iter()
        .map(|query| query.sees)
        .max()
        .unwrap_or(0);
    let least = queries[..N]
        .iter()
        .map(|query| query.sees)
        .min()
        .unwrap_or(0);
    let mut outputs = [L::splat(0.0); N];
    for (index, block) in blocks[..most.div_ceil(cache.block_size)].iter().enumerate() {
        let start = index * cache.block_size;
        let end = (start + cache.block_size).min(most);
        let values =
            *block as usize * cache.value_numbers() + head * cache.block_size * cache.padded_head;
        for position in start..end {
            unsafe {
                let at = values + (position - start) * cache.padded_head + first;
                let value = L::load(cache.values.add(at));
                for row in 0..N {
                    // What a query does not see must not reach it, not even times zero.
                    if position < least || position < queries[row].sees {
                        let weight = L::splat(*scores.add(row * stride + position));
                        outputs[row] = value.fma(weight, outputs[row]);
                    }
                }
            }
        }
    }
    for (row, output) in outputs.into_iter().enumerate() {
        unsafe {
            output
                .div(L::splat(sums[row]))
                .store(queries[row].to.add(first));
        }
    }
}
