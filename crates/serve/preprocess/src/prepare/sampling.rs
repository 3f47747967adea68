//! How the next token is drawn, as a request asks for it.

use contract::{Penalties, Sampling};
use openai::GenerationOptions;

pub(super) fn sampling(options: &GenerationOptions) -> Sampling {
    let default = Sampling::default();
    Sampling {
        temperature: options.temperature.unwrap_or(default.temperature),
        top_p: options.top_p.unwrap_or(default.top_p),
        top_k: options.top_k,
        min_p: options.min_p,
        penalties: Penalties {
            presence: options.presence_penalty,
            frequency: options.frequency_penalty,
            repetition: options
                .repetition_penalty
                .unwrap_or(default.penalties.repetition),
        },
        logit_bias: options.logit_bias.as_slice().into(),
        seed: options.seed.map(i64::cast_unsigned),
    }
}
