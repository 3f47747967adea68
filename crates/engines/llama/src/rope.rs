//! Rotary positions: the angles of every position, and turning heads by them.

use checkpoint::config::{ModelConfig, RopePairs};

#[derive(Debug)]
pub(crate) struct Rope {
    pairs: RopePairs,
    half: usize,
    /// For each position `half` cosines, then `half` sines.
    table: Vec<f32>,
}

impl Rope {
    pub(crate) fn new(config: &ModelConfig, positions: usize) -> Self {
        Self {
            pairs: config.rope_pairs,
            half: config.head_size / 2,
            table: config.rope_angles(positions),
        }
    }

    /// Turns one head to its position.
    pub(crate) fn turn(&self, head: &mut [f32], position: usize) {
        let half = self.half;
        let (cosines, sines) =
            self.table[position * 2 * half..(position + 1) * 2 * half].split_at(half);
        for pair in 0..half {
            let (one, other) = match self.pairs {
                RopePairs::Halves => (pair, pair + half),
                RopePairs::Neighbours => (2 * pair, 2 * pair + 1),
            };
            let (x, y) = (head[one], head[other]);
            head[one] = x * cosines[pair] - y * sines[pair];
            head[other] = y * cosines[pair] + x * sines[pair];
        }
    }
}
