//! Which tensors a model has, and their shapes.
//!
//! A tensor too many is refused as well: it would take part in what the model computes.

use std::collections::BTreeMap;

use super::Stored;
use crate::config::ModelConfig;
use crate::error::{Fault, TensorFault};

/// Tables that old exporters leave beside the weights; they follow from the configuration.
const LEFT_OVER: &str = ".rotary_emb.inv_freq";

/// Compares what is there with what should be. Takes out what is not needed.
pub(super) fn check(
    config: &ModelConfig,
    tensors: &mut BTreeMap<String, Stored>,
) -> Result<(), Fault> {
    tensors.retain(|name, _| !name.ends_with(LEFT_OVER));
    if config.tied_embeddings {
        tensors.remove("lm_head.weight");
    }
    let mut known = 0;
    let mut one = |name: String, rows: usize, columns: usize| match tensors.get(&name) {
        None => Err(TensorFault::Missing { rows, columns }.of(name)),
        Some(found) if (found.info.rows, found.info.columns) == (rows, columns) => {
            known += 1;
            Ok(())
        }
        Some(found) => Err(TensorFault::OtherShape {
            rows,
            columns,
            found: (found.info.rows, found.info.columns),
        }
        .of(name)),
    };
    let (vocabulary, hidden) = (config.vocabulary, config.hidden);
    one("model.embed_tokens.weight".to_owned(), vocabulary, hidden)?;
    one("model.norm.weight".to_owned(), 1, hidden)?;
    if !config.tied_embeddings {
        one("lm_head.weight".to_owned(), vocabulary, hidden)?;
    }
    for layer in 0..config.layers {
        for (part, rows, columns) in of_layer(config) {
            one(format!("model.layers.{layer}.{part}"), rows, columns)?;
        }
    }
    if known == tensors.len() {
        return Ok(());
    }
    let unknown = tensors.keys().find(|name| !is_known(config, name));
    let unknown = unknown.map_or("one of them", String::as_str);
    Err(TensorFault::Unknown.of(unknown))
}

/// Parts of a layer with rows and columns.
fn of_layer(config: &ModelConfig) -> impl Iterator<Item = (&'static str, usize, usize)> {
    let (hidden, inner) = (config.hidden, config.feed_forward);
    let queries = config.heads * config.head_size;
    let keys = config.kv_heads * config.head_size;
    let weights = [
        ("input_layernorm.weight", 1, hidden),
        ("self_attn.q_proj.weight", queries, hidden),
        ("self_attn.k_proj.weight", keys, hidden),
        ("self_attn.v_proj.weight", keys, hidden),
        ("self_attn.o_proj.weight", hidden, queries),
        ("post_attention_layernorm.weight", 1, hidden),
        ("mlp.gate_proj.weight", inner, hidden),
        ("mlp.up_proj.weight", inner, hidden),
        ("mlp.down_proj.weight", hidden, inner),
    ];
    let biases = [
        ("self_attn.q_proj.bias", 1, queries),
        ("self_attn.k_proj.bias", 1, keys),
        ("self_attn.v_proj.bias", 1, keys),
    ];
    let biases = config.qkv_bias.then_some(biases);
    weights.into_iter().chain(biases.into_iter().flatten())
}

fn is_known(config: &ModelConfig, name: &str) -> bool {
    if let Some((layer, part)) = name
        .strip_prefix("model.layers.")
        .and_then(|rest| rest.split_once('.'))
    {
        let layer = layer.parse::<usize>();
        return layer.is_ok_and(|layer| layer < config.layers)
            && of_layer(config).any(|(known, ..)| known == part);
    }
    matches!(
        name,
        "model.embed_tokens.weight" | "model.norm.weight" | "lm_head.weight"
    )
}
