//! Folders with FP8 weights as the two tools write them, made of a model with golden values.
//!
//! Each comes with a second folder that has, in F32, what its numbers stand for. So that a scale that
//! is taken from the wrong tensor or not at all cannot go unnoticed, scales of fused tensors are far
//! from each other, and keys and values are thousands of times as large as FP8 without a scale can
//! hold; queries and the attention's output layer are as much smaller, and the model says the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use checkpoint::format::e4m3_to_f32;
use checkpoint::{Checkpoint, TensorInfo};
use serde_json::{Map, Value, json};

/// Who wrote it, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// compressed-tensors: a scale for each tensor, calibrated activations, the output layer too.
    Tensor,
    /// compressed-tensors: a scale for each output, activations by token.
    Channel,
    /// modelopt: scalars, and nothing in `config.json`.
    Modelopt,
    /// modelopt: a scale for each output.
    ModeloptChannel,
}

impl Scheme {
    pub(crate) const ALL: [Self; 4] = [
        Self::Tensor,
        Self::Channel,
        Self::Modelopt,
        Self::ModeloptChannel,
    ];

    fn is_per_output(self) -> bool {
        matches!(self, Self::Channel | Self::ModeloptChannel)
    }

    fn config(self) -> Option<Value> {
        let fp8 = |strategy: &str| json!({"num_bits": 8, "type": "float", "strategy": strategy});
        let compressed_tensors = |weights: &str, inputs: &str, ignore: Value| {
            json!({"quant_method": "compressed-tensors", "format": "float-quantized",
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": fp8(weights),
                    "input_activations": fp8(inputs), "output_activations": null}},
                "kv_cache_scheme": fp8("tensor"), "ignore": ignore})
        };
        match self {
            Self::Tensor => Some(compressed_tensors("tensor", "tensor", json!([]))),
            Self::Channel => Some(compressed_tensors("channel", "token", json!(["lm_head"]))),
            Self::Modelopt => None,
            Self::ModeloptChannel => {
                Some(json!({"quant_method": "modelopt", "quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}))
            }
        }
    }

    /// What a layer's scales of keys and values are called.
    fn cache_names(self) -> [&'static str; 2] {
        match self {
            Self::Tensor => ["k_scale", "v_scale"],
            Self::Channel => ["k_proj.output_scale", "v_proj.output_scale"],
            Self::Modelopt | Self::ModeloptChannel => ["k_proj.k_scale", "v_proj.v_scale"],
        }
    }
}

/// The same numbers twice.
#[derive(Debug)]
pub(crate) struct Folders {
    pub(crate) fp8: PathBuf,
    pub(crate) plain: PathBuf,
}

struct Tensor {
    /// As safetensors call it.
    dtype: &'static str,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// Tensors by their names.
#[derive(Default)]
struct File(BTreeMap<String, Tensor>);

impl File {
    fn add(&mut self, name: &str, dtype: &'static str, shape: &[usize], bytes: Vec<u8>) {
        let shape = shape.to_vec();
        let tensor = Tensor {
            dtype,
            shape,
            bytes,
        };
        self.0.insert(name.to_owned(), tensor);
    }

    fn f32(&mut self, name: &str, shape: &[usize], numbers: &[f32]) {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
        self.add(name, "F32", shape, bytes.collect());
    }

    /// The upper halves of floats whose lower halves are zero.
    fn bf16(&mut self, name: &str, shape: &[usize], numbers: &[f32]) {
        let halves = numbers
            .iter()
            .flat_map(|number| ((number.to_bits() >> 16) as u16).to_le_bytes());
        self.add(name, "BF16", shape, halves.collect());
    }

    fn write(&self, folder: &Path, config: &Value) {
        let (mut header, mut data) = (Map::new(), Vec::new());
        for (name, tensor) in &self.0 {
            let Tensor {
                dtype,
                shape,
                bytes,
            } = tensor;
            let begin = data.len();
            data.extend(bytes);
            let entry =
                json!({"dtype": dtype, "shape": shape, "data_offsets": [begin, data.len()]});
            header.insert(name.clone(), entry);
        }
        let header = Value::Object(header).to_string();
        let length = (header.len() as u64).to_le_bytes();
        let file = [&length[..], header.as_bytes(), &data].concat();
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("model.safetensors"), file).unwrap();
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
    }
}

/// How much larger a tensor's numbers become.
fn stretch(name: &str) -> f32 {
    let has = |part: &str| name.contains(part);
    if has("k_proj") || has("v_proj") {
        4096.0
    } else if has("q_proj") || has("o_proj.weight") {
        1.0 / 4096.0
    } else {
        1.0
    }
}

/// How much larger a scale is than it had to be.
fn spread(name: &str) -> f32 {
    let parts = [("k_proj", 4.0), ("v_proj", 12.0), ("up_proj", 7.0)];
    let found = parts.iter().find(|(part, _)| name.contains(part));
    found.map_or(1.0, |(_, spread)| *spread)
}

/// The nearest code, by search.
fn code(number: f32) -> u8 {
    let distance = |code: &u8| (e4m3_to_f32(*code) - number.abs()).abs();
    let codes = 0..=0x7e_u8;
    let nearest = codes.min_by(|one, other| distance(one).total_cmp(&distance(other)));
    nearest.unwrap() | if number < 0.0 { 0x80 } else { 0 }
}

/// A matrix of the model to both files.
fn quantise(files: &mut [File; 2], name: &str, info: &TensorInfo, numbers: &[f32], scheme: Scheme) {
    let group = match scheme.is_per_output() {
        true => info.columns,
        false => numbers.len(),
    };
    let (mut codes, mut plain, mut scales) = (Vec::new(), Vec::new(), Vec::new());
    for numbers in numbers.chunks_exact(group) {
        let largest = numbers
            .iter()
            .fold(0.0f32, |most, number| most.max(number.abs()));
        // Up to the next BF16, which some files have.
        let scale = largest / 448.0 * spread(name);
        let scale = f32::from_bits((scale.to_bits() + 0xffff) & 0xffff_0000);
        for number in numbers {
            let code = code(number / scale);
            codes.push(code);
            plain.push(e4m3_to_f32(code) * (scale * stretch(name)));
        }
        scales.push(scale * stretch(name));
    }
    let shape = vec![info.rows, info.columns];
    let [fp8, decoded] = files;
    decoded.f32(name, &shape, &plain);
    fp8.add(name, "F8_E4M3", &shape, codes);
    let module = name.strip_suffix(".weight").unwrap();
    let scale_name = format!("{module}.weight_scale");
    let input_name = format!("{module}.input_scale");
    match scheme {
        Scheme::Tensor => {
            fp8.bf16(&scale_name, &[1], &scales);
            fp8.bf16(&input_name, &[1], &[0.125]);
        }
        Scheme::Channel => fp8.f32(&scale_name, &[info.rows, 1], &scales),
        Scheme::Modelopt => {
            fp8.f32(&scale_name, &[], &scales);
            fp8.f32(&input_name, &[], &[0.125]);
        }
        Scheme::ModeloptChannel => fp8.f32(&scale_name, &[info.rows], &scales),
    }
}

/// Writes both folders for one test, whose name keeps it apart from others.
pub(crate) fn write(golden: &Path, scheme: Scheme, test: &str) -> Folders {
    let opened = Checkpoint::open(golden).unwrap();
    let mut files = [File::default(), File::default()];
    let mut bytes = Vec::new();
    for (name, info) in opened.tensors() {
        opened.read(name, &mut bytes).unwrap();
        let mut numbers = vec![0.0; info.rows * info.columns];
        info.format.dequantise(&bytes, &mut numbers);
        let is_head = name == "lm_head.weight" && scheme == Scheme::Tensor;
        if name.ends_with("_proj.weight") || is_head {
            quantise(&mut files, name, info, &numbers, scheme);
            continue;
        }
        let shape = match info.rows {
            1 => vec![info.columns],
            rows => vec![rows, info.columns],
        };
        numbers
            .iter_mut()
            .for_each(|number| *number *= stretch(name));
        files
            .iter_mut()
            .for_each(|file| file.f32(name, &shape, &numbers));
    }
    for layer in 0..opened.config().layers {
        for (name, scale) in scheme.cache_names().into_iter().zip([256.0, 512.0]) {
            let name = format!("model.layers.{layer}.self_attn.{name}");
            files[0].bf16(&name, &[1], &[scale]);
        }
    }
    let text = fs::read_to_string(golden.join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    let model = golden.file_name().unwrap().display();
    let folder = |kind: &str| {
        let name = format!("{test}-{model}-{scheme:?}-{kind}");
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
    };
    let folders = Folders {
        fp8: folder("fp8"),
        plain: folder("plain"),
    };
    files[1].write(&folders.plain, &config);
    match scheme.config() {
        Some(quantization) => config["quantization_config"] = quantization,
        None => {
            let said = json!({"producer": {"name": "modelopt", "version": "0.29.0"},
                "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8",
                    "exclude_modules": ["lm_head"]}});
            fs::create_dir_all(&folders.fp8).unwrap();
            fs::write(folders.fp8.join("hf_quant_config.json"), said.to_string()).unwrap();
        }
    }
    files[0].write(&folders.fp8, &config);
    folders
}
