//! What a folder says of how it was quantised: `quantization_config`, or modelopt's own file.
//!
//! The tensors themselves say which weights are FP8, and have their scales beside them; so lists of
//! targets and of exceptions are not needed. What is checked here is that the scheme is one whose
//! tensors mean what `scales` takes them for. Anything else is refused, with what was found.

#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::error::Unsupported;

type Checked = Result<(), Unsupported>;

/// Checks `quantization_config` of a `config.json`.
pub(super) fn check(config: &Value) -> Checked {
    // The first versions of modelopt that wrote it named themselves another way.
    let method = text(config, "quant_method").or(text(config, "quant_library"));
    match method {
        Some("compressed-tensors") => check_compressed_tensors(config),
        Some("modelopt") => check_modelopt(config),
        Some(other) => refusal(described(other, config)),
        None => refusal("of an unknown kind".to_owned()),
    }
}

/// Checks what modelopt says, in its own file or in `quantization_config`.
pub(super) fn check_modelopt(config: &Value) -> Checked {
    let config = given(config, "quantization").unwrap_or(config);
    let algorithm = |key| given(config, key).map(|value| named(value).to_uppercase());
    match algorithm("quant_algo").as_deref() {
        // Without one it has quantised the cache alone.
        None | Some("FP8" | "FP8_PER_CHANNEL_PER_TOKEN") => {}
        Some(other) => return refusal(format!("modelopt {other}")),
    }
    match algorithm("kv_cache_quant_algo").as_deref() {
        None | Some("FP8") => {}
        Some(other) => return refusal(format!("modelopt with a KV cache of {other}")),
    }
    match given(config, "kv_cache_scheme") {
        Some(Value::String(scheme)) if scheme == "FP8" => Ok(()),
        Some(scheme) => check_cache("modelopt", scheme),
        None => Ok(()),
    }
}

fn check_compressed_tensors(config: &Value) -> Checked {
    let sparsity = given(config, "sparsity_config").and_then(|sparsity| text(sparsity, "format"));
    if let Some(sparsity) = sparsity.filter(|sparsity| *sparsity != "dense") {
        return refusal(format!("compressed-tensors with sparsity {sparsity}"));
    }
    check_format(config.get("format"))?;
    let Some(groups) = config.get("config_groups").and_then(Value::as_object) else {
        return refusal("compressed-tensors without config_groups".to_owned());
    };
    groups.values().try_for_each(check_group)?;
    match given(config, "kv_cache_scheme") {
        Some(scheme) => check_cache("compressed-tensors", scheme),
        None => Ok(()),
    }
}

fn check_format(format: Option<&Value>) -> Checked {
    match format {
        Some(Value::String(format)) if format == "float-quantized" => Ok(()),
        Some(other) => refusal(format!("compressed-tensors {}", named(other))),
        None => refusal("compressed-tensors without a format".to_owned()),
    }
}

/// One group of layers that were quantised alike.
fn check_group(group: &Value) -> Checked {
    if let Some(format) = given(group, "format") {
        check_format(Some(format))?;
    }
    let Some(weights) = given(group, "weights") else {
        return refusal("compressed-tensors without a scheme for weights".to_owned());
    };
    let what = "compressed-tensors with weights";
    check_scheme(what, weights, &["tensor", "channel"])?;
    if let Some(inputs) = given(group, "input_activations") {
        // Nothing depends on their scales: see `scales`.
        let what = "compressed-tensors with input activations";
        check_scheme(what, inputs, &["tensor", "token"])?;
    }
    match given(group, "output_activations") {
        Some(_) => refusal("compressed-tensors of output activations".to_owned()),
        None => Ok(()),
    }
}

fn check_cache(method: &str, scheme: &Value) -> Checked {
    check_scheme(&format!("{method} with a KV cache"), scheme, &["tensor"])
}

/// Checks that numbers are FP8, scaled by one of `strategies`. Defaults are those of the library.
fn check_scheme(what: &str, scheme: &Value, strategies: &[&str]) -> Checked {
    let bits = scheme.get("num_bits").and_then(Value::as_u64).unwrap_or(8);
    let kind = text(scheme, "type").unwrap_or("int");
    let group = given(scheme, "group_size").and_then(Value::as_i64);
    let strategy = text(scheme, "strategy").unwrap_or(match group {
        None => "tensor",
        Some(-1) => "channel",
        Some(_) => "group",
    });
    let is_symmetric = scheme.get("symmetric") != Some(&Value::Bool(false));
    if (bits, kind) == (8, "float") && is_symmetric && strategies.contains(&strategy) {
        return Ok(());
    }
    let sides = if is_symmetric { "" } else { ", asymmetric" };
    refusal(format!(
        "{what} of {bits} bits, {kind}, by {strategy}{sides}"
    ))
}

/// A method that is not read, with what its name leaves open.
fn described(method: &str, config: &Value) -> String {
    let blocks = given(config, "weight_block_size").map(|size| format!(" in blocks of {size}"));
    let bits = given(config, "bits").map(|bits| format!(" of {bits} bits"));
    format!(
        "{method}{}{}",
        bits.unwrap_or_default(),
        blocks.unwrap_or_default()
    )
}

fn refusal(found: String) -> Checked {
    Err(Unsupported::Quantization(found))
}

/// A field that is there and not null.
fn given<'a>(config: &'a Value, key: &str) -> Option<&'a Value> {
    config.get(key).filter(|value| !value.is_null())
}

fn text<'a>(config: &'a Value, key: &str) -> Option<&'a str> {
    config.get(key).and_then(Value::as_str)
}

/// A value as a message has it.
fn named(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
