//! Schemes as tools write them: those that are read, and what is said of others.

use serde_json::json;

use super::*;

/// As compressed-tensors writes FP8 with calibrated activations and cache; changed in one place.
fn compressed_tensors(place: &str, value: Value) -> Value {
    let args = |strategy: &str, dynamic: bool| {
        json!({"num_bits": 8, "type": "float", "symmetric": true, "strategy": strategy,
            "dynamic": dynamic, "group_size": null, "block_structure": null, "actorder": null,
            "observer": "minmax", "observer_kwargs": {}})
    };
    let mut config = json!({
        "quant_method": "compressed-tensors", "format": "float-quantized",
        "quantization_status": "compressed", "global_compression_ratio": 1.5,
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": args("tensor", false),
            "input_activations": args("tensor", false), "output_activations": null}},
        "kv_cache_scheme": args("tensor", false), "ignore": ["lm_head"],
    });
    // An empty place is the whole, which stays as it is.
    if !place.is_empty() {
        let (parent, key) = place.rsplit_once('/').unwrap();
        config.pointer_mut(parent).unwrap()[key] = value;
    }
    config
}

#[test]
fn what_tools_write_of_fp8_is_read() {
    const GROUP: &str = "/config_groups/group_0";
    let per_token = json!({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true});
    let place = |part: &str| format!("{GROUP}/{part}");
    for config in [
        compressed_tensors("", Value::Null),
        compressed_tensors(&place("weights/strategy"), json!("channel")),
        compressed_tensors(&place("weights/strategy"), Value::Null),
        compressed_tensors(&place("input_activations"), per_token),
        compressed_tensors(&place("input_activations"), Value::Null),
        compressed_tensors(&place("format"), json!("float-quantized")),
        compressed_tensors("/kv_cache_scheme", Value::Null),
        compressed_tensors("/sparsity_config", json!({"format": "dense"})),
        compressed_tensors("/sparsity_config", json!({})),
        json!({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"],
            "producer": {"name": "modelopt", "version": "0.29.0"},
            "config_groups": {"group_0": {"weights": {"dynamic": false, "num_bits": 8, "type": "float"}}},
            "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "type": "float"}}),
        json!({"quant_library": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": "FP8"}),
        json!({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}),
    ] {
        assert!(check(&config).is_ok(), "{config}: {:?}", check(&config));
    }
    for quantization in [
        json!({"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}),
        json!({"quant_algo": "FP8", "kv_cache_quant_algo": null}),
        json!({"quant_algo": null, "kv_cache_quant_algo": "FP8"}),
    ] {
        let config = json!({"producer": {"name": "modelopt"}, "quantization": quantization});
        check_modelopt(&config).unwrap();
    }
}

/// What was found is named, in one line.
#[track_caller]
fn refused(config: &Value, found: &str) {
    let said = check(config).expect_err(found).to_string();
    let expected =
        format!("quantization {found} is not supported, only FP8 with a scale per tensor");
    assert!(said.starts_with(&expected), "{said}");
    assert!(!said.contains('\n'), "{said}");
}

#[test]
fn other_schemes_of_compressed_tensors_are_refused() {
    const WEIGHTS: &str = "/config_groups/group_0/weights";
    let weights = |bits: u32, kind: &str, strategy: &str| {
        let scheme = json!({"num_bits": bits, "type": kind, "strategy": strategy});
        compressed_tensors(WEIGHTS, scheme)
    };
    let changed = compressed_tensors;
    for (config, found) in [
        (
            changed("/format", json!("pack-quantized")),
            "compressed-tensors pack-quantized",
        ),
        (
            changed("/format", json!("nvfp4-pack-quantized")),
            "compressed-tensors nvfp4-pack-quantized",
        ),
        (
            changed("/format", json!("int-quantized")),
            "compressed-tensors int-quantized",
        ),
        (
            changed("/config_groups/group_0/format", json!("mxfp8-quantized")),
            "compressed-tensors mxfp8-quantized",
        ),
        (
            changed("/sparsity_config", json!({"format": "sparse-24-bitmask"})),
            "compressed-tensors with sparsity sparse-24-bitmask",
        ),
        (
            changed("/config_groups", json!({"FP8": ["Linear"]})),
            "compressed-tensors without a scheme for weights",
        ),
        (
            weights(8, "float", "block"),
            "compressed-tensors with weights of 8 bits, float, by block",
        ),
        (
            weights(8, "int", "channel"),
            "compressed-tensors with weights of 8 bits, int, by channel",
        ),
        (
            weights(4, "float", "tensor_group"),
            "compressed-tensors with weights of 4 bits, float, by tensor_group",
        ),
        (
            changed(&format!("{WEIGHTS}/symmetric"), json!(false)),
            "compressed-tensors with weights of 8 bits, float, by tensor, asymmetric",
        ),
        (
            changed("/kv_cache_scheme/strategy", json!("attn_head")),
            "compressed-tensors with a KV cache of 8 bits, float, by attn_head",
        ),
        (
            changed("/kv_cache_scheme/type", json!("int")),
            "compressed-tensors with a KV cache of 8 bits, int, by tensor",
        ),
        (
            changed("/config_groups/group_0/output_activations", json!({})),
            "compressed-tensors of output activations",
        ),
    ] {
        refused(&config, found);
    }
}

#[test]
fn other_tools_and_algorithms_are_refused() {
    let modelopt = |algorithm: &str| json!({"quant_method": "modelopt", "quant_algo": algorithm});
    for (config, found) in [
        (
            json!({"quant_method": "fp8", "weight_block_size": [128, 128]}),
            "fp8 in blocks of [128,128]",
        ),
        (json!({"quant_method": "fp8"}), "fp8"),
        (json!({"quant_method": "awq", "bits": 4}), "awq of 4 bits"),
        (json!({"quant_method": "gptq", "bits": 8}), "gptq of 8 bits"),
        (json!({"quant_method": "bitsandbytes"}), "bitsandbytes"),
        (json!({}), "of an unknown kind"),
        (modelopt("NVFP4"), "modelopt NVFP4"),
        (modelopt("fp8_pb_wo"), "modelopt FP8_PB_WO"),
        (modelopt("W4A8_AWQ"), "modelopt W4A8_AWQ"),
        (
            json!({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "NVFP4"}),
            "modelopt with a KV cache of NVFP4",
        ),
    ] {
        refused(&config, found);
    }
}
