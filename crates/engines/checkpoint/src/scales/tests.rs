//! Folders with FP8 weights: what is read of them, and which of them are refused.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::Checkpoint;
use crate::tests::build::{self, HIDDEN, INNER, Tensor};

fn scale(name: &str, shape: &[usize], numbers: &[f32]) -> Tensor {
    Tensor {
        name: name.to_owned(),
        dtype: "F32",
        shape: shape.to_vec(),
        bytes: numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect(),
    }
}

const UP: &str = "model.layers.1.mlp.up_proj";
const KEYS_OF_0: &str = "model.layers.0.self_attn.k_proj.k_scale";

/// All tensors, one of them FP8 by a single scale, and scales of one layer's keys and values.
fn tensors() -> Vec<Tensor> {
    let mut all = build::tensors(false, false);
    let up = format!("{UP}.weight");
    let weight = all.iter_mut().find(|tensor| tensor.name == up).unwrap();
    weight.dtype = "F8_E4M3";
    weight.bytes = (0..HIDDEN * INNER).map(|at| (at % 120) as u8).collect();
    all.push(scale(&format!("{UP}.weight_scale"), &[], &[0.25]));
    all.push(scale(&format!("{UP}.input_scale"), &[1], &[3.0]));
    all.push(scale(KEYS_OF_0, &[], &[0.5]));
    all.push(scale(
        "model.layers.0.self_attn.v_proj.v_scale",
        &[1],
        &[2.0],
    ));
    all
}

fn open(path: &Path, tensors: &[Tensor], config: &Value) -> Result<Checkpoint, String> {
    build::write_folder(path, config, tensors);
    Checkpoint::open(path).map_err(|error| error.to_string())
}

fn plain() -> Value {
    build::config("LlamaForCausalLM", "llama")
}

fn declared() -> Value {
    let mut config = plain();
    config["quantization_config"] = json!({"quant_method": "modelopt", "quant_algo": "FP8"});
    config
}

#[test]
fn weights_have_a_scale_for_every_row_and_layers_have_theirs() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path(), &tensors(), &declared()).unwrap();
    assert!(opened.has_fp8());
    let name = format!("{UP}.weight");
    let mut bytes = Vec::new();
    let info = opened.read(&name, &mut bytes).unwrap();
    assert_eq!(
        (info.format, info.rows, bytes.len()),
        (Format::E4m3, INNER, INNER * HIDDEN)
    );
    assert_eq!(opened.row_scales(&name).unwrap(), Some(vec![0.25; INNER]));
    assert_eq!(opened.row_scales("model.norm.weight").unwrap(), None);
    let (keys, values) = (0.5, 2.0);
    assert_eq!(
        opened.cache_scales(0).unwrap(),
        CacheScales { keys, values }
    );
    assert_eq!(opened.cache_scales(1).unwrap(), CacheScales::NONE);
    assert_eq!(opened.tensors().count(), build::tensors(false, false).len());
    // As many as rows, in either shape.
    let expected: Vec<f32> = (0..INNER).map(|row| row as f32).collect();
    for shape in [&[INNER][..], &[INNER, 1]] {
        let mut all = tensors();
        all.retain(|tensor| tensor.name != format!("{UP}.weight_scale"));
        all.push(scale(&format!("{UP}.weight_scale"), shape, &expected));
        let opened = open(folder.path(), &all, &declared()).unwrap();
        assert_eq!(opened.row_scales(&name).unwrap().as_ref(), Some(&expected));
    }
}

#[test]
fn the_file_of_modelopt_alone_says_enough_and_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hf_quant_config.json");
    let say = |algorithm: &str| {
        fs::write(
            &file,
            json!({"quantization": {"quant_algo": algorithm}}).to_string(),
        )
        .unwrap();
    };
    say("FP8");
    assert!(open(folder.path(), &tensors(), &plain()).unwrap().has_fp8());
    say("W4A8_AWQ");
    let said = open(folder.path(), &tensors(), &plain()).unwrap_err();
    assert!(
        said.contains("hf_quant_config.json: quantization modelopt W4A8_AWQ"),
        "{said}"
    );
}

#[test]
fn fp8_that_nobody_speaks_of_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let said = open(folder.path(), &tensors(), &plain()).unwrap_err();
    assert!(
        said.contains("up_proj.weight is stored as F8_E4M3, but neither"),
        "{said}"
    );
    let mut all = build::tensors(false, false);
    all.push(scale(KEYS_OF_0, &[], &[0.5]));
    let said = open(folder.path(), &all, &plain()).unwrap_err();
    assert!(
        said.ends_with("k_scale is not part of such a model"),
        "{said}"
    );
}

#[test]
fn scales_that_fit_nothing_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let weight_scale = format!("{UP}.weight_scale");
    let halves = |name: &str| Tensor {
        dtype: "F8_E4M3",
        bytes: vec![0; 1],
        ..scale(name, &[1], &[])
    };
    let mut norm = halves("model.norm.weight");
    (norm.shape, norm.bytes) = (vec![HIDDEN], vec![0; HIDDEN]);
    for (other, said) in [
        (
            scale(&weight_scale, &[3], &[1.0; 3]),
            "weight_scale has the shape [3], which is neither one scale nor one for each of 64 outputs",
        ),
        (
            scale(&weight_scale, &[1, 64], &[1.0; 64]),
            "has the shape [1, 64]",
        ),
        (
            scale(&weight_scale, &[2, 2], &[1.0; 4]),
            "has the shape [2, 2]",
        ),
        (halves(&weight_scale), "is not a scale: it is F8E4M3"),
        (
            scale(&format!("{UP}.input_scale"), &[32], &[1.0; 32]),
            "input_scale has the shape [32]",
        ),
        (
            scale(KEYS_OF_0, &[2], &[1.0; 2]),
            "k_scale has the shape [2]: one scale per layer is supported",
        ),
        (
            scale("model.layers.2.self_attn.k_scale", &[], &[1.0]),
            "is not part of such a model",
        ),
        (
            scale("model.layers.0.mlp.up_proj.weight_scale", &[], &[1.0]),
            "is not part of such a model",
        ),
        (
            scale("model.layers.0.self_attn.q_scale", &[1], &[1.0]),
            "is not part of such a model",
        ),
        (
            norm,
            "model.norm.weight is stored as F8_E4M3, which is not supported",
        ),
    ] {
        let mut all = tensors();
        all.retain(|tensor| tensor.name != other.name);
        all.push(other);
        let found = open(folder.path(), &all, &declared()).unwrap_err();
        assert!(found.contains(said), "{found}");
    }
    let mut without = tensors();
    without.retain(|tensor| tensor.name != weight_scale);
    let found = open(folder.path(), &without, &declared()).unwrap_err();
    let said = format!("is stored as F8_E4M3, but there is no {weight_scale}");
    assert!(found.contains(&said), "{found}");
}

#[test]
fn numbers_that_cannot_be_scales_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let weight_scale = format!("{UP}.weight_scale");
    for (name, number) in [
        (weight_scale.as_str(), f32::NAN),
        (weight_scale.as_str(), -1.0),
        (KEYS_OF_0, 0.0),
        (KEYS_OF_0, f32::INFINITY),
    ] {
        let mut all = tensors();
        all.retain(|tensor| tensor.name != name);
        all.push(scale(name, &[], &[number]));
        let opened = open(folder.path(), &all, &declared()).unwrap();
        let rows = opened.row_scales(&format!("{UP}.weight")).map(|_| ());
        let said = rows.and(opened.cache_scales(0).map(|_| ())).unwrap_err();
        let expected = format!("{name} has the number {number}, which cannot be a scale");
        assert!(said.to_string().contains(&expected), "{said}");
    }
}

/// The output layer of tied embeddings is not needed, and neither are its scales.
#[test]
fn scales_of_an_output_layer_that_is_left_out_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = declared();
    config["tie_word_embeddings"] = true.into();
    let mut all = tensors();
    let head = all
        .iter_mut()
        .find(|tensor| tensor.name == "lm_head.weight")
        .unwrap();
    (head.dtype, head.bytes) = ("F8_E4M3", vec![0; build::WORDS * HIDDEN]);
    all.push(scale("lm_head.weight_scale", &[], &[1.0]));
    open(folder.path(), &all, &config).unwrap();
}
