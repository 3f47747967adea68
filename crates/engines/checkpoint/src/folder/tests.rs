//! Configurations old, new and refused; shards.

use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::Checkpoint;
use crate::config::{Architecture, RopePairs};
use crate::tests::build;

fn with(changes: &Value) -> Value {
    let mut config = build::config("LlamaForCausalLM", "llama");
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn parsed(changes: &Value) -> ModelConfig {
    build::parsed(&with(changes)).unwrap()
}

fn refused(changes: &Value) -> String {
    build::parsed(&with(changes)).expect_err(&changes.to_string())
}

#[test]
fn a_plain_configuration() {
    let config = parsed(&json!({}));
    let expected = ModelConfig {
        architecture: Architecture::Llama,
        name: "m".to_owned(),
        layers: 2,
        hidden: 32,
        feed_forward: 64,
        heads: 4,
        kv_heads: 2,
        head_size: 8,
        vocabulary: 40,
        context: 128,
        norm_epsilon: 1e-5,
        rope_theta: 10_000.0,
        rope_pairs: RopePairs::Halves,
        rope_divisors: None,
        tied_embeddings: false,
        qkv_bias: false,
    };
    assert_eq!(config, expected);
    let missing = json!({"num_key_value_heads": null, "head_dim": null, "architectures": null});
    assert_eq!(parsed(&missing).kv_heads, 4);
    assert_eq!(parsed(&json!({"head_dim": 16})).head_size, 16);
}

#[test]
fn rotation_is_read_from_wherever_it_is() {
    assert_eq!(parsed(&json!({"rope_theta": 5e5})).rope_theta, 5e5);
    let inside = json!({"rope_parameters": {"rope_type": "default", "rope_theta": 7e4}});
    assert_eq!(parsed(&inside).rope_theta, 7e4);
    assert_eq!(parsed(&inside).rope_divisors, None);
    let old = json!({"rope_theta": 2e4, "rope_scaling": {"type": "default"}});
    assert_eq!(parsed(&old).rope_theta, 2e4);
}

/// The numbers are those of transformers 5: frequencies without scaling over those with it.
#[test]
fn llama3_scaling_is_that_of_transformers() {
    let mut scaling = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8192});
    let old = parsed(&json!({"head_dim": 64, "rope_theta": 5e5, "rope_scaling": scaling}));
    scaling["rope_theta"] = 5e5.into();
    let new = parsed(&json!({"head_dim": 64, "rope_parameters": scaling}));
    assert_eq!(old, new);
    let divisors = new.rope_divisors.unwrap();
    let expected = [
        vec![1.0; 15],
        vec![1.553_414, 2.694_53, 5.257_327],
        vec![8.0; 14],
    ]
    .concat();
    assert_eq!(divisors.len(), expected.len());
    for (found, expected) in divisors.iter().zip(expected) {
        assert!(
            (found / expected - 1.0_f32).abs() < 1e-5,
            "{found} {expected}"
        );
    }
}

#[test]
fn what_we_cannot_compute_is_refused_by_name() {
    for (changes, named) in [
        (
            json!({"architectures": ["MistralForCausalLM"]}),
            "MistralForCausalLM",
        ),
        (
            json!({"architectures": null, "model_type": "gemma3"}),
            "gemma3",
        ),
        (
            json!({"architectures": null, "model_type": null}),
            "neither",
        ),
        (json!({"model_type": "qwen2"}), "contradict"),
        (json!({"hidden_act": "gelu"}), "gelu"),
        (json!({"attention_bias": true}), "attention_bias"),
        (json!({"mlp_bias": true}), "mlp_bias"),
        (json!({"sliding_window": 64}), "sliding"),
        (
            json!({"layer_types": ["full_attention", "sliding_attention"]}),
            "sliding",
        ),
        (
            json!({"rope_scaling": {"type": "linear", "factor": 2.0}}),
            "linear",
        ),
        (
            json!({"rope_parameters": {"rope_type": "yarn", "factor": 2.0}}),
            "yarn",
        ),
        (
            json!({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}),
            "low_freq_factor",
        ),
        (json!({"partial_rotary_factor": 0.5}), "part of a head"),
        (
            json!({"quantization_config": {"quant_method": "fp8"}}),
            "fp8",
        ),
        (json!({"num_key_value_heads": 3}), "heads"),
        (json!({"num_attention_heads": 0}), "heads"),
        (json!({"head_dim": 7}), "pairs"),
        (json!({"num_hidden_layers": 5_000_000}), "layers"),
        (json!({"vocab_size": u64::MAX}), "vocabulary"),
        (json!({"rms_norm_eps": 0.0}), "epsilon"),
        (json!({"rope_theta": -1.0}), "rotation"),
        (json!({"hidden_size": "32"}), "invalid type"),
    ] {
        let said = refused(&changes);
        assert!(said.contains(named), "{said}");
    }
}

#[test]
fn a_window_counts_only_where_it_is_used() {
    let mut config = build::config("Qwen2ForCausalLM", "qwen2");
    config["sliding_window"] = 64.into();
    config["use_sliding_window"] = false.into();
    build::parsed(&config).unwrap();
    config["use_sliding_window"] = true.into();
    config["max_window_layers"] = 2.into();
    build::parsed(&config).unwrap();
    config["max_window_layers"] = 1.into();
    assert!(build::parsed(&config).is_err());
    config["layer_types"] = json!(["full_attention", "full_attention"]);
    assert!(build::parsed(&config).unwrap().qkv_bias);
}

/// A model in two shards, whose index is changed before it is written.
fn shards(path: &Path, index: impl FnOnce(&mut Value)) -> Result<Checkpoint, LoadError> {
    let tensors = build::tensors(false, false);
    let (one, two) = tensors.split_at(7);
    let mut map = json!({"metadata": {"total_size": 1}, "weight_map": {}});
    for (file, tensors) in [("a.safetensors", one), ("b.safetensors", two)] {
        fs::write(path.join(file), build::safetensors(tensors)).unwrap();
        for tensor in tensors {
            map["weight_map"][&tensor.name] = file.into();
        }
    }
    index(&mut map);
    let config = build::config("LlamaForCausalLM", "llama");
    fs::write(path.join("config.json"), config.to_string()).unwrap();
    fs::write(path.join(INDEX), map.to_string()).unwrap();
    Checkpoint::open(path)
}

#[test]
fn shards_are_one_model() {
    let folder = tempfile::tempdir().unwrap();
    let opened = shards(folder.path(), |_| {}).unwrap();
    let mut bytes = Vec::new();
    for tensor in build::tensors(false, false) {
        opened.read(&tensor.name, &mut bytes).unwrap();
        assert_eq!(bytes, tensor.bytes);
    }
}

#[test]
fn an_index_that_lies_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (file, named) in [
        (
            "b.safetensors",
            "tensor model.norm.weight is not in b.safetensors",
        ),
        ("../b.safetensors", "not a file's name"),
        ("c.safetensors", "c.safetensors: cannot be opened"),
    ] {
        let opened = shards(folder.path(), |index| {
            index["weight_map"]["model.norm.weight"] = file.into();
        });
        let said = opened.expect_err(file).to_string();
        assert!(said.contains(named), "{said}");
    }
}
