//! Queries against a cache in blocks.
//!
//! Keys lie with sixteen positions side by side, values with sixteen components: both sums
//! run along the loop. A score is the same sum whichever queries come together and wherever
//! blocks lie.

use std::ops::Range;

use super::lanes::Lanes;
use super::row::softmax;
use crate::layout::LANES;

/// The keys and values of one layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cache {
    /// By block, head, sixteen positions, component: sixteen positions each.
    pub(crate) keys: *const f32,
    /// By block, head, position: the components.
    pub(crate) values: *const f32,
    pub(crate) blocks: usize,
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

/// One head of one sequence's keys and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CachedHead<'a> {
    pub(crate) cache: &'a Cache,
    pub(crate) head: usize,
    /// Where the sequence's positions are, block after block.
    pub(crate) blocks: &'a [u32],
}

/// One query: where it is, where its output goes, and how many positions it sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Query {
    pub(crate) from: *const f32,
    pub(crate) to: *mut f32,
    pub(crate) sees: usize,
}

/// Rows of scores, one for each query.
#[derive(Clone, Copy)]
struct Scores {
    values: *mut f32,
    /// From one row to the next.
    stride: usize,
}

impl Scores {
    /// Without the first `rows` rows.
    ///
    /// # Safety
    ///
    /// There are as many rows.
    #[inline(always)]
    unsafe fn skip_rows(self, rows: usize) -> Self {
        Self {
            // SAFETY: the caller guarantees the rows.
            values: unsafe { self.values.add(rows * self.stride) },
            ..self
        }
    }

    /// The rows without their first `count` positions.
    ///
    /// # Safety
    ///
    /// Rows have as many.
    #[inline(always)]
    unsafe fn skip_positions(self, count: usize) -> Self {
        Self {
            // SAFETY: the caller guarantees the positions.
            values: unsafe { self.values.add(count) },
            ..self
        }
    }
}

/// Queries that are computed together.
pub(crate) const TOGETHER: usize = 6;

/// Attends with up to [`TOGETHER`] queries of one sequence to one head of the cache.
/// `scores` has room for `TOGETHER` rows of `stride` numbers, `stride` being whole lanes
/// beyond all that is seen and a block more.
///
/// # Safety
///
/// The processor has the instructions of `L`. The cache's pointers are good for its number of
/// blocks, and nobody writes to those of the sequence meanwhile. A query can be read for
/// `head_size` numbers and its output written for `padded_head`, by nobody else.
#[inline(always)]
pub(crate) unsafe fn attend<L: Lanes>(
    place: CachedHead<'_>,
    queries: &[Query],
    scores: &mut [f32],
    stride: usize,
) {
    let cache = place.cache;
    let most = queries.iter().map(|query| query.sees).max().unwrap_or(0);
    assert!(queries.len() <= TOGETHER && scores.len() >= queries.len() * stride);
    assert!(
        stride >= most.next_multiple_of(cache.block_size) + LANES && stride.is_multiple_of(LANES)
    );
    assert!(place.head < cache.heads && place.blocks.len() * cache.block_size >= most);
    let seen = &place.blocks[..most.div_ceil(cache.block_size)];
    assert!(seen.iter().all(|block| (*block as usize) < cache.blocks));
    let mut done = 0;
    let rows = Scores {
        values: scores.as_mut_ptr(),
        stride,
    };
    while done < queries.len() {
        let rest = &queries[done..];
        macro_rules! group {
            ($n:literal) => {{
                // SAFETY: the caller guarantees instructions and pointers. `scores` has a row for
                // each query, all blocks that are seen are the cache's, and `stride` has room for
                // whole lanes behind the last block: all asserted above. `rest` has `$n` queries.
                unsafe { score::<L, $n>(place, rest, rows.skip_rows(done)) };
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
        let row = &mut scores[row * stride..(row + 1) * stride];
        // SAFETY: the caller guarantees the instructions.
        *sum = unsafe { softmax::<L>(row, query.sees, scale) };
    }
    let rows = Scores {
        values: scores.as_mut_ptr(),
        stride,
    };
    let mut first = 0;
    while first < cache.padded_head {
        // As many components at once as there are registers for.
        let wide = L::ROOMY && cache.padded_head - first >= WIDE * LANES;
        let mut done = 0;
        while done < queries.len() {
            let (rest, sums) = (&queries[done..], &sums[done..]);
            macro_rules! group {
                ($n:literal, $v:expr) => {{
                    // SAFETY: as for `score`; `$v` vectors from component `first` on are within
                    // `padded_head`, and there is a sum for each query.
                    unsafe { mix::<L, $n, $v>(place, first, rest, sums, rows.skip_rows(done)) };
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
///
/// # Safety
///
/// As [`attend`]; there are `N` queries and rows of scores, and rows have room for whole lanes
/// behind the last block that is seen.
#[inline(always)]
unsafe fn score<L: Lanes, const N: usize>(
    place: CachedHead<'_>,
    queries: &[Query],
    scores: Scores,
) {
    let CachedHead {
        cache,
        head,
        blocks,
    } = place;
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
            // SAFETY: the block is one of the cache's and `group` one of its groups, so `keys` has
            // `head_size` vectors for it and, in the first branch, for the next. Scores have room
            // up to whole lanes behind the block.
            unsafe {
                let keys = cache.keys.add(keys + group * group_numbers);
                let scores = scores.skip_positions(start + group * LANES);
                if L::ROOMY && groups - group >= 2 {
                    dot::<L, N, 2>(cache, keys, queries, scores);
                    group += 2;
                } else {
                    dot::<L, N, 1>(cache, keys, queries, scores);
                    group += 1;
                }
            }
        }
    }
}

/// The products of `N` queries with `G` sixteens of keys.
///
/// # Safety
///
/// The processor has the instructions of `L`; `keys` has `G` groups of `head_size` vectors, each
/// query `head_size` numbers, and each of `N` rows of scores room for `G` vectors.
#[inline(always)]
unsafe fn dot<L: Lanes, const N: usize, const G: usize>(
    cache: &Cache,
    keys: *const f32,
    queries: &[Query],
    scores: Scores,
) {
    // SAFETY: the caller guarantees all of it: components are below `head_size`, groups below
    // `G`, rows below `N`.
    unsafe {
        let mut sums = [[L::splat(0.0); G]; N];
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
                sum.store(scores.values.add(row * scores.stride + group * LANES));
            }
        }
    }
}

/// `V` sixteens of components of the outputs of `N` queries, from component `first` on. Each
/// query's output is divided by its sum.
///
/// # Safety
///
/// As [`attend`]; there are `N` queries and rows of scores, and `first + V * LANES` is at most
/// `padded_head`.
#[inline(always)]
unsafe fn mix<L: Lanes, const N: usize, const V: usize>(
    place: CachedHead<'_>,
    first: usize,
    queries: &[Query],
    sums: &[f32],
    scores: Scores,
) {
    let sees = || queries[..N].iter().map(|query| query.sees);
    let least = sees().min().unwrap_or(0);
    // SAFETY: the caller guarantees instructions, cache and scores. Every query of a group sees
    // `least` positions at least and has a row of scores for all that it sees; its output has
    // `padded_head` numbers.
    unsafe {
        let mut outputs = [[L::splat(0.0); V]; N];
        run::<L, N, V>(place, first, 0..least, scores, &mut outputs);
        // What a query does not see must not reach it, not even times zero.
        for (row, (query, output)) in queries.iter().zip(&mut outputs).enumerate() {
            let rest = least..query.sees;
            let own = scores.skip_rows(row);
            run::<L, 1, V>(place, first, rest, own, std::array::from_mut(output));
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
///
/// # Safety
///
/// As [`mix`]; the blocks and the `N` rows of scores reach to the end of `positions`.
#[inline(always)]
unsafe fn run<L: Lanes, const N: usize, const V: usize>(
    place: CachedHead<'_>,
    first: usize,
    positions: Range<usize>,
    scores: Scores,
    outputs: &mut [[L; V]; N],
) {
    let CachedHead {
        cache,
        head,
        blocks,
    } = place;
    let mut position = positions.start;
    while position < positions.end {
        let (index, offset) = (position / cache.block_size, position % cache.block_size);
        let count = (cache.block_size - offset).min(positions.end - position);
        let block = blocks[index] as usize * cache.value_numbers();
        let start = (head * cache.block_size + offset) * cache.padded_head + first;
        // SAFETY: the block is one of the cache's, `offset + count` is at most its size, and the
        // caller guarantees `V` vectors from `first` on, and the scores.
        unsafe {
            let values = cache.values.add(block + start);
            let scores = scores.skip_positions(position);
            for at in 0..count {
                let values = values.add(at * cache.padded_head);
                let value: [L; V] = std::array::from_fn(|v| L::load(values.add(v * LANES)));
                for (row, output) in outputs.iter_mut().enumerate() {
                    let weight = L::splat(*scores.values.add(row * scores.stride + at));
                    for (output, value) in output.iter_mut().zip(value) {
                        *output = value.fma(weight, *output);
                    }
                }
            }
        }
        position += count;
    }
}
