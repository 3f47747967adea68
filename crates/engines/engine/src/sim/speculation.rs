//! Speculative decoding as acceptance probabilities.
//!
//! Text does not depend on speculation: a draft that is accepted is, by definition, what the
//! target would have said. So all there is to simulate is how many drafts are accepted.

use contract::random::unit;

/// How drafts are made and how often they are right.
#[derive(Clone, Debug, PartialEq)]
pub struct Speculation {
    pub method: Method,
    /// For each position of a draft, the probability that it is accepted if all before it
    /// were. As many as tokens are drafted.
    pub acceptance: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    None,
    DraftModel,
    Eagle3,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::DraftModel => "draft-model",
            Self::Eagle3 => "eagle3",
        }
    }
}

impl Speculation {
    /// How many of `drafts` drafted tokens the target accepts. `draw` gives the random draw
    /// for a position of the draft.
    pub fn accepted(&self, drafts: usize, draw: impl Fn(usize) -> u64) -> usize {
        let probabilities = self.acceptance.iter().take(drafts).enumerate();
        probabilities
            .take_while(|&(position, &p)| unit(draw(position)) < p)
            .count()
    }

    /// Accepted over drafted tokens, in the long run.
    pub fn expected_acceptance(&self) -> f64 {
        let mut all_so_far = 1.0;
        let accepted: f64 = self
            .acceptance
            .iter()
            .map(|p| {
                all_so_far *= p;
                all_so_far
            })
            .sum();
        accepted / self.acceptance.len().max(1) as f64
    }
}
