//! Seeded randomness.
//!
//! Two forms. [`mix`] is counter-based: the draw for (seed, request, position) is the same
//! in whatever order draws are made, so batching never changes a result. [`Random`] is a
//! sequence for places with a single owner. Both are SplitMix64, which passes the
//! statistical batteries and is six lines; nothing here is cryptographic.

/// One draw, determined by its arguments alone.
pub fn mix(seed: u64, stream: u64, position: u64) -> u64 {
    let keyed = finish(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
    finish(keyed.wrapping_add(position.wrapping_mul(GOLDEN)))
}

/// Maps a draw to [0, 1).
pub fn unit(draw: u64) -> f64 {
    // 53 bits: every value is exactly representable.
    (draw >> 11) as f64 / (1_u64 << 53) as f64
}

/// A sequence of draws.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        finish(self.state)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// Uniform in `0..n`; `n` must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        debug_assert!(n > 0, "an empty range has no member");
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn finish(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_evenly() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[random.below(10)] += 1;
        }
        assert!(
            counts.iter().all(|&count| (850..1150).contains(&count)),
            "{counts:?}"
        );
    }

    #[test]
    fn a_draw_depends_on_every_argument() {
        let draws = [
            mix(1, 1, 1),
            mix(2, 1, 1),
            mix(1, 2, 1),
            mix(1, 1, 2),
            mix(2, 2, 1),
        ];
        for (i, left) in draws.iter().enumerate() {
            assert!(!draws[i + 1..].contains(left));
        }
        assert_eq!(mix(1, 2, 3), mix(1, 2, 3));
    }
}
