//! How the next token is drawn: as a request asks for it, otherwise as the model's files recommend.

use contract::{NamedOptions, Penalties, Sampling};
use openai::GenerationOptions;
use serde::Deserialize;

/// What a model's `generation_config.json` recommends, which engines take for what a request leaves
/// open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub(super) struct Recommended {
    temperature: Option<f32>,
    top_p: Option<f32>,
    top_k: Option<u32>,
    min_p: Option<f32>,
    repetition_penalty: Option<f32>,
}

impl Recommended {
    /// Without values that no request could ask for.
    pub(super) fn sound(self) -> Self {
        let share = |value: &f32| (0.0..=1.0).contains(value);
        Self {
            temperature: self.temperature.filter(|value| (0.0..=2.0).contains(value)),
            top_p: self.top_p.filter(|value| share(value) && *value > 0.0),
            top_k: self.top_k,
            min_p: self.min_p.filter(share),
            repetition_penalty: self
                .repetition_penalty
                .filter(|value| value.is_finite() && *value > 0.0),
        }
    }
}

pub(super) fn sampling(options: &GenerationOptions, model: Recommended) -> Sampling {
    let default = Sampling::default();
    let or = |asked: Option<f32>, recommended: Option<f32>, otherwise: f32| {
        asked.or(recommended).unwrap_or(otherwise)
    };
    Sampling {
        temperature: or(options.temperature, model.temperature, default.temperature),
        top_p: or(options.top_p, model.top_p, default.top_p),
        top_k: options.top_k.or(model.top_k).filter(|top_k| *top_k > 0),
        min_p: or(options.min_p, model.min_p, default.min_p),
        penalties: Penalties {
            presence: options.presence_penalty,
            frequency: options.frequency_penalty,
            repetition: or(
                options.repetition_penalty,
                model.repetition_penalty,
                default.penalties.repetition,
            ),
        },
        logit_bias: options.logit_bias.as_slice().into(),
        seed: options.seed.map(i64::cast_unsigned),
        named: NamedOptions {
            temperature: options.temperature.is_some(),
            top_p: options.top_p.is_some(),
            top_k: options.top_k.is_some(),
            min_p: options.min_p.is_some(),
            repetition: options.repetition_penalty.is_some(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_wins_over_the_model_and_the_model_over_us() {
        let file = r#"{"do_sample": true, "temperature": 0.6, "top_p": 0.9, "top_k": 20}"#;
        let model = serde_json::from_str::<Recommended>(file).unwrap().sound();
        let open = sampling(&GenerationOptions::default(), model);
        assert_eq!(
            (open.temperature, open.top_p, open.top_k, open.min_p),
            (0.6, 0.9, Some(20), 0.0)
        );
        assert_eq!(open.named, NamedOptions::default());
        let options = GenerationOptions {
            temperature: Some(1.0),
            top_k: Some(0),
            ..GenerationOptions::default()
        };
        let named = sampling(&options, model);
        assert_eq!((named.temperature, named.top_k), (1.0, None));
        assert!(named.named.temperature && named.named.top_k && !named.named.top_p);
    }

    #[test]
    fn what_no_request_could_ask_for_is_not_recommended() {
        let file = r#"{"temperature": -1, "top_p": 0, "min_p": 7, "repetition_penalty": 0}"#;
        let model = serde_json::from_str::<Recommended>(file).unwrap().sound();
        assert_eq!(model, Recommended::default());
    }
}
