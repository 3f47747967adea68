//! What a model's files say of its shape.

use crate::error::ConfigError;

/// Families that differ in what a layer computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 2 and 3, SmolLM2, and others of the same layers.
    Llama,
    /// The same with a bias on queries, keys and values.
    Qwen2,
}

/// Which components of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairs {
    /// `i` and `i + half`: Hugging Face's weights, and GGUF's of Qwen2.
    Halves,
    /// `2 i` and `2 i + 1`: GGUF's weights of Llama, whose rows were reordered for it.
    Neighbours,
}

/// The shape of a model. Checked: every number is positive, heads divide evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    pub architecture: Architecture,
    /// As the files call it, or the file's own name.
    pub name: String,
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width inside the feed-forward part.
    pub feed_forward: usize,
    pub heads: usize,
    /// Heads of keys and values; divides `heads`.
    pub kv_heads: usize,
    pub head_size: usize,
    pub vocabulary: usize,
    /// Longest context that the model was made for.
    pub context: usize,
    pub norm_epsilon: f32,
    pub rope_theta: f32,
    pub rope_pairs: RopePairs,
    /// What each frequency is divided by (llama3 scaling); one for each of half a head, or none.
    pub rope_divisors: Option<Vec<f32>>,
    /// The output layer is the table of embeddings.
    pub tied_embeddings: bool,
    pub qkv_bias: bool,
}

/// Far more than any model has, and small enough that products of two are numbers.
const MOST: usize = 1 << 31;
const MOST_LAYERS: usize = 1 << 12;

impl ModelConfig {
    /// What heads are turned by: for each position half a head's cosines, then as many sines.
    pub fn rope_angles(&self, positions: usize) -> Vec<f32> {
        let half = self.head_size / 2;
        let frequencies: Vec<f32> = (0..half)
            .map(|pair| {
                let exponent = (2 * pair) as f64 / self.head_size as f64;
                let frequency = (1.0 / f64::from(self.rope_theta).powf(exponent)) as f32;
                match &self.rope_divisors {
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
        table
    }

    /// Why no model has this shape.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let out_of_range = |what, value: &dyn ToString| {
            let value = value.to_string();
            Err(ConfigError::OutOfRange { what, value })
        };
        let counts = [
            ("layers", self.layers, MOST_LAYERS),
            ("hidden size", self.hidden, MOST),
            ("feed-forward size", self.feed_forward, MOST),
            ("heads", self.heads, MOST),
            ("heads of keys and values", self.kv_heads, MOST),
            ("head size", self.head_size, MOST),
            ("vocabulary", self.vocabulary, MOST),
            ("context", self.context, MOST),
        ];
        for (what, count, most) in counts {
            if !(1..=most).contains(&count) {
                return out_of_range(what, &count);
            }
        }
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(ConfigError::UnevenSharing {
                heads: self.heads,
                kv_heads: self.kv_heads,
            });
        }
        if !self.head_size.is_multiple_of(2) {
            return Err(ConfigError::OddHeads(self.head_size));
        }
        for (what, number) in [
            ("norm epsilon", self.norm_epsilon),
            ("base of rotation", self.rope_theta),
        ] {
            if !(number.is_finite() && number > 0.0) {
                return out_of_range(what, &number);
            }
        }
        let Some(divisors) = &self.rope_divisors else {
            return Ok(());
        };
        if divisors.len() != self.head_size / 2 {
            return Err(ConfigError::Divisors {
                divisors: divisors.len(),
                head_size: self.head_size,
            });
        }
        match divisors.iter().find(|by| !(by.is_finite() && **by > 0.0)) {
            Some(by) => out_of_range("divisor of rotation", by),
            None => Ok(()),
        }
    }
}
