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
        let half = config.head_size / 2;
        let frequencies: Vec<f32> = (0..half)
            .map(|pair| {
                let exponent = (2 * pair) as f64 / config.head_size as f64;
                let frequency = (1.0 / f64::from(config.rope_theta).powf(exponent)) as f32;
                match &config.rope_divisors {
                    Some(divisors) => frequency / divisors[pair],
                    None => frequency,
                }
            })
            .collect();
        let mut table = Vec::with_capacity(positions * 2 * half);
        for position in 0..positions {
            // The angle is rounded first, as everywhere else.
            let angles = || {
                frequencies
                    .iter()
                    .map(|frequency| position as f32 * frequency)
            };
            table.extend(angles().map(|angle| f64::from(angle).cos() as f32));
            table.extend(angles().map(|angle| f64::from(angle).sin() as f32));
        }
        Self {
            pairs: config.rope_pairs,
            half,
            table,
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
