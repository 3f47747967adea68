//! Queries against a cache in blocks.
//!
//! Keys lie with sixteen positions side by side, values with sixteen components: both sums
//! run along the loop. A score is the same sum whichever queries come together and wherever
//! blocks lie.

use std::ops::Range;

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
    let mut first = 0;
    while first < cache.padded_head {
        // As many components at once as there are registers for.
        let wide = L::ROOMY && cache.padded_head - first >= WIDE * LANES;
        let mut done = 0;
        while done < queries.len() {
            let (rest, sums) = (&queries[done..], &sums[done..]);
            let scores = unsafe { scores.add(done * stride) };
            let at = (head, first);
            macro_rules! group {
                ($n:literal, $v:expr) => {{
                    unsafe { mix::<L, $n, $v>(cache, at, blocks, (rest, sums), (scores, stride)) };
                    done += $n;
                }};
            }
            match (rest.len(), wide) {
                (6.., true) => group!(6, WIDE),
                (3.., true) => group!(3, WIDE),
                (_, true) => group!(1, WIDE),
                (3.., false) => group!(3, 1),
                (_, false) => group!(1, 1),
            }
        }
        first += if wide { WIDE * LANES } else { LANES };
    }
}

/// Sixteens of components that are mixed at once.
const WIDE: usize = 4;

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
        let mut group = 0;
        while group < groups {
            unsafe {
                let keys = cache.keys.add(keys + group * group_numbers);
                let scores = scores.add(start + group * LANES);
                if L::ROOMY && groups - group >= 2 {
                    dot::<L, N, 2>(cache, keys, queries, (scores, stride));
                    group += 2;
                } else {
                    dot::<L, N, 1>(cache, keys, queries, (scores, stride));
                    group += 1;
                }
            }
        }
    }
}

/// The products of `N` queries with `G` sixteens of keys.
#[inline(always)]
unsafe fn dot<L: Lanes, const N: usize, const G: usize>(
    cache: &Cache,
    keys: *const f32,
    queries: &[Query],
    (scores, stride): (*mut f32, usize),
) {
    let mut sums = [[L::splat(0.0); G]; N];
    unsafe {
        for component in 0..cache.head_size {
            let key: [L; G] = std::array::from_fn(|group| {
                L::load(keys.add((group * cache.head_size + component) * LANES))
            });
            for (sums, query) in sums.iter_mut().zip(queries) {
                let query = L::splat(*query.from.add(component));
                for (sum, key) in sums.iter_mut().zip(key) {
                    *sum = key.fma(query, *sum);
                }
            }
        }
        // A block's last lanes may reach into the next one's place, which comes later.
        for (row, sums) in sums.into_iter().enumerate() {
            for (group, sum) in sums.into_iter().enumerate() {
                sum.store(scores.add(row * stride + group * LANES));
            }
        }
    }
}

/// `V` sixteens of components of the outputs of `N` queries.
#[inline(always)]
unsafe fn mix<L: Lanes, const N: usize, const V: usize>(
    cache: &Cache,
    (head, first): (usize, usize),
    blocks: &[u32],
    (queries, sums): (&[Query], &[f32]),
    (scores, stride): (*const f32, usize),
) {
    let sees = || queries[..N].iter().map(|query| query.sees);
    let least = sees().min().unwrap_or(0);
    let mut outputs = [[L::splat(0.0); V]; N];
    unsafe {
        let all = (first, 0..least);
        run::<L, N, V>(cache, (head, blocks), all, (scores, stride), &mut outputs);
        // What a query does not see must not reach it, not even times zero.
        for (row, (query, output)) in queries.iter().zip(&mut outputs).enumerate() {
            let rest = (first, least..query.sees);
            let own = (scores.add(row * stride), stride);
            run::<L, 1, V>(
                cache,
                (head, blocks),
                rest,
                own,
                std::array::from_mut(output),
            );
        }
        for ((query, sum), output) in queries.iter().zip(sums).zip(outputs) {
            for (vector, lanes) in output.into_iter().enumerate() {
                lanes
                    .div(L::splat(*sum))
                    .store(query.to.add(first + vector * LANES));
            }
        }
    }
}

/// Adds the values at some positions, each times its weight.
#[inline(always)]
unsafe fn run<L: Lanes, const N: usize, const V: usize>(
    cache: &Cache,
    (head, blocks): (usize, &[u32]),
    (first, positions): (usize, Range<usize>),
    (scores, stride): (*const f32, usize),
    outputs: &mut [[L; V]; N],
) {
    let mut position = positions.start;
    while position < positions.end {
        let (index, offset) = (position / cache.block_size, position % cache.block_size);
        let count = (cache.block_size - offset).min(positions.end - position);
        let block = blocks[index] as usize * cache.value_numbers();
        let start = (head * cache.block_size + offset) * cache.padded_head + first;
        unsafe {
            let values = cache.values.add(block + start);
            let scores = scores.add(position);
            for at in 0..count {
                let values = values.add(at * cache.padded_head);
                let value: [L; V] = std::array::from_fn(|v| L::load(values.add(v * LANES)));
                for (row, output) in outputs.iter_mut().enumerate() {
                    let weight = L::splat(*scores.add(row * stride + at));
                    for (output, value) in output.iter_mut().zip(value) {
                        *output = value.fma(weight, *output);
                    }
                }
            }
        }
        position += count;
    }
}
