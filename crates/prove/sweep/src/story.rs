//! Four stages side by side, each with one optimisation more: the story of the demo.
//!
//! A stage is reported like a mode, because that is what changes between the columns of a
//! report; but beside the router's mode it has its own engine. On simulated workers the engines
//! are three profiles of one GPU. Anywhere else, a stage is whatever a command deploys under
//! its name.

use serde::{Deserialize, Serialize};

/// One step of the story.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    pub name: String,
    /// The router's mode.
    pub mode: String,
    /// The simulated engine.
    pub profile: String,
}

/// The story on one H200 per worker.
pub fn stages() -> Vec<Stage> {
    let stages = [
        ("round-robin", "round-robin", "h200-llama-70b-fp8"),
        ("kv", "kv", "h200-llama-70b-fp8"),
        ("kv+draft", "kv", "h200-llama-70b-fp8-draft"),
        ("kv+eagle3", "kv", "h200-llama-70b-fp8-eagle3"),
    ];
    let stage = |(name, mode, profile): (&str, &str, &str)| Stage {
        name: name.to_owned(),
        mode: mode.to_owned(),
        profile: profile.to_owned(),
    };
    stages.map(stage).into()
}

#[cfg(test)]
mod tests {
    use engine::sim::Profile;

    use super::*;

    #[test]
    fn stages_differ_in_one_thing_each() {
        let stages = stages();
        for (before, after) in stages.iter().zip(&stages[1..]) {
            let mode = u8::from(before.mode != after.mode);
            let engine = u8::from(before.profile != after.profile);
            assert_eq!(mode + engine, 1, "{} and {}", before.name, after.name);
        }
        let profiles = stages
            .iter()
            .map(|stage| Profile::named(&stage.profile).unwrap());
        let gpus: Vec<_> = profiles.map(|profile| profile.gpu).collect();
        assert!(gpus.windows(2).all(|pair| pair[0] == pair[1]), "one GPU");
    }
}
