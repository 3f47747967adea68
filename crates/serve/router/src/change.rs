//! Changes how workers are chosen while the router runs, and reports the current settings.

use serde::{Deserialize, Serialize};
use tracing::info;

use crate::mode::{BlockWeights, Mode, ModeError, ModeName};
use crate::router::Router;

/// What a client asks for; what is left out keeps its value.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouterChange {
    pub mode: Option<String>,
    pub overlap_score_weight: Option<f64>,
    pub router_temperature: Option<f64>,
}

/// What is in force. A mode without a parameter says nothing of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RouterState {
    pub mode: ModeName,
    #[serde(flatten)]
    pub weights: Option<BlockWeights>,
    /// All mode names.
    pub modes: [ModeName; ModeName::ALL.len()],
}

impl Mode {
    pub fn state(&self) -> RouterState {
        RouterState {
            mode: self.name(),
            weights: self.weights(),
            modes: ModeName::ALL,
        }
    }
}

impl RouterChange {
    /// Switches `router`, and returns what is in force then.
    pub fn apply(&self, router: &Router) -> Result<RouterState, ModeError> {
        let mode = self.applied_to(router.mode())?;
        info!(?mode, "router mode switched");
        router.set_mode(mode);
        Ok(mode.state())
    }

    fn applied_to(&self, current: Mode) -> Result<Mode, ModeError> {
        let name = self.mode.as_deref();
        let name = name.map_or(Ok(current.name()), str::parse)?;
        let weights = current.weights().unwrap_or_default();
        let weights = BlockWeights::new(
            self.overlap_score_weight
                .unwrap_or(weights.overlap_score_weight()),
            self.router_temperature
                .unwrap_or(weights.router_temperature()),
        )?;
        Ok(Mode::new(name, weights))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(text: &str) -> RouterChange {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_left_out_keeps_its_value() {
        let blocks = change(r#"{"mode":"kv-blocks","overlap_score_weight":2.5}"#);
        let blocks = blocks.applied_to(Mode::Kv).unwrap();
        let colder = change(r#"{"router_temperature":0.5}"#);
        let colder = colder.applied_to(blocks).unwrap();
        let weights = BlockWeights::new(2.5, 0.5).unwrap();
        assert_eq!(colder, Mode::KvBlocks(weights));
        assert_eq!(RouterChange::default().applied_to(Mode::Kv), Ok(Mode::Kv));
    }

    #[test]
    fn the_state_has_the_parameters_of_its_mode_only() {
        let of = |mode: Mode| serde_json::to_value(mode.state()).unwrap();
        let kv = of(Mode::Kv);
        assert_eq!(
            (&kv["mode"], kv.get("router_temperature")),
            (&json!("kv"), None)
        );
        let blocks = of(Mode::KvBlocks(BlockWeights::default()));
        assert_eq!(blocks["overlap_score_weight"], json!(1.0));
        assert_eq!(
            blocks["modes"].as_array().map(Vec::len),
            Some(ModeName::ALL.len())
        );
    }
}
