//! Scales beside FP8 numbers: which there may be, and of which shape.
//!
//! A number of an FP8 weight stands for itself times its tensor's scale, or its row's. Those of
//! activations are what a calibration found; engines that compute with FP8 activations scale each
//! token by itself, so they are known and not read. Keys and values have one scale per layer, under
//! three names.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::Stored;
use crate::config::ModelConfig;
use crate::error::{Fault, TensorFault};
use crate::format::Format;
use crate::safetensors::SafeTensor;

/// What keys and values of a layer are divided by where they are stored as FP8, and multiplied by
/// when they are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheScales {
    pub keys: f32,
    pub values: f32,
}

impl CacheScales {
    pub const NONE: Self = Self {
        keys: 1.0,
        values: 1.0,
    };
}

/// Names of a layer's scale of keys in its attention: modelopt's, and compressed-tensors' new and old.
pub(super) const KEYS: [&str; 3] = ["k_proj.k_scale", "k_scale", "k_proj.output_scale"];
/// The same of values.
pub(super) const VALUES: [&str; 3] = ["v_proj.v_scale", "v_scale", "v_proj.output_scale"];

/// Where a scale is.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) format: Format,
    shape: Vec<usize>,
    /// Which of the files.
    pub(super) file: usize,
    pub(super) at: u64,
    pub(super) bytes: usize,
}

impl Scale {
    pub(super) fn new(tensor: SafeTensor, file: usize) -> Result<Self, TensorFault> {
        let format = match tensor.dtype.format() {
            Some(format @ (Format::F32 | Format::F16 | Format::Bf16)) => format,
            _ => return Err(TensorFault::ScaleStoredAs(format!("{:?}", tensor.dtype))),
        };
        Ok(Self {
            format,
            shape: tensor.shape,
            file,
            at: tensor.at,
            bytes: tensor.bytes,
        })
    }

    pub(super) fn count(&self) -> usize {
        self.shape.iter().product()
    }

    /// One number, whatever the shape calls it.
    fn is_one(&self) -> bool {
        matches!(self.shape[..], [] | [1] | [1, 1])
    }

    fn fits(&self, rows: usize) -> Result<(), TensorFault> {
        let is_per_row = self.shape == [rows] || self.shape == [rows, 1];
        match self.is_one() || is_per_row {
            true => Ok(()),
            false => Err(TensorFault::ScaleShape {
                found: self.shape.clone(),
                rows,
            }),
        }
    }
}

/// Whether a tensor of that name is a scale and no part of a model.
pub(super) fn is_scale(name: &str) -> bool {
    let last = name.rsplit_once('.').map(|(_, last)| last);
    matches!(
        last,
        Some("weight_scale" | "input_scale" | "k_scale" | "v_scale" | "output_scale")
    )
}

/// The name of a weight's scale.
pub(super) fn of(weight: &str) -> Option<String> {
    let module = weight.strip_suffix(".weight")?;
    Some(format!("{module}.weight_scale"))
}

/// Compares scales with the tensors that they are for. Takes out those of a tensor that is not needed.
pub(super) fn check(
    config: &ModelConfig,
    tensors: &BTreeMap<String, Stored>,
    scales: &mut BTreeMap<String, Scale>,
) -> Result<(), Fault> {
    if config.tied_embeddings {
        scales.retain(|name, _| !name.starts_with("lm_head."));
    }
    let fp8 = tensors
        .iter()
        .filter(|(_, stored)| stored.info.format == Format::E4m3);
    for (name, stored) in fp8 {
        // Norms and biases are small, and nobody rounds them so far.
        if stored.info.rows == 1 {
            return Err(TensorFault::StoredAs(Format::E4m3.to_string()).of(name.as_str()));
        }
        let scale = of(name).unwrap_or_default();
        let Some(found) = scales.get(&scale) else {
            return Err(TensorFault::NoScale(scale).of(name.as_str()));
        };
        let checked = found.fits(stored.info.rows);
        checked.map_err(|fault| fault.of(scale))?;
    }
    for (name, scale) in &*scales {
        let checked = belongs(config, tensors, name, scale);
        checked.map_err(|fault| fault.of(name.as_str()))?;
    }
    Ok(())
}

/// Whether a scale is of something: an FP8 weight, its inputs, or a layer's keys or values.
fn belongs(
    config: &ModelConfig,
    tensors: &BTreeMap<String, Stored>,
    name: &str,
    scale: &Scale,
) -> Result<(), TensorFault> {
    let (module, last) = name.rsplit_once('.').unwrap_or_default();
    let weight = tensors.get(&format!("{module}.weight"));
    let is_fp8 = weight.is_some_and(|stored| stored.info.format == Format::E4m3);
    match last {
        "weight_scale" if is_fp8 => Ok(()),
        "input_scale" if is_fp8 => match scale.is_one() {
            true => Ok(()),
            false => Err(TensorFault::ScaleShape {
                found: scale.shape.clone(),
                rows: 1,
            }),
        },
        _ if !is_of_cache(config, name) => Err(TensorFault::Unknown),
        _ if scale.is_one() => Ok(()),
        _ => Err(TensorFault::CacheScaleShape(scale.shape.clone())),
    }
}

fn is_of_cache(config: &ModelConfig, name: &str) -> bool {
    let found = name
        .strip_prefix("model.layers.")
        .and_then(|rest| rest.split_once(".self_attn."));
    let Some((layer, part)) = found else {
        return false;
    };
    let is_layer = layer
        .parse()
        .is_ok_and(|layer: usize| layer < config.layers);
    is_layer && (KEYS.contains(&part) || VALUES.contains(&part))
}
