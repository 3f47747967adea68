//! Small models written byte by byte, as GGUF and as a folder.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::config::ModelConfig;

/// Names of Hugging Face and shapes: two layers, grouped heads.
pub(crate) const HIDDEN: usize = 32;
pub(crate) const INNER: usize = 64;
pub(crate) const KEYS: usize = 16;
pub(crate) const WORDS: usize = 40;
const LAYERS: usize = 2;

/// A tensor to write: its name, shape with rows first, and bytes.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// As safetensors call it.
    pub(crate) dtype: &'static str,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

fn tensor(name: &str, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let seed = name.len() as f32;
    let numbers = (0..count).flat_map(|i| (seed + i as f32 / 8.0).to_le_bytes());
    Tensor {
        name: name.to_owned(),
        dtype: "F32",
        shape: shape.to_vec(),
        bytes: numbers.collect(),
    }
}

/// All tensors of a model in F32, by Hugging Face's names.
pub(crate) fn tensors(biases: bool, tied: bool) -> Vec<Tensor> {
    let mut all = vec![
        tensor("model.embed_tokens.weight", &[WORDS, HIDDEN]),
        tensor("model.norm.weight", &[HIDDEN]),
    ];
    if !tied {
        all.push(tensor("lm_head.weight", &[WORDS, HIDDEN]));
    }
    for layer in 0..LAYERS {
        let mut add = |part: &str, shape: &[usize]| {
            all.push(tensor(&format!("model.layers.{layer}.{part}"), shape));
        };
        add("input_layernorm.weight", &[HIDDEN]);
        add("self_attn.q_proj.weight", &[HIDDEN, HIDDEN]);
        add("self_attn.k_proj.weight", &[KEYS, HIDDEN]);
        add("self_attn.v_proj.weight", &[KEYS, HIDDEN]);
        add("self_attn.o_proj.weight", &[HIDDEN, HIDDEN]);
        add("post_attention_layernorm.weight", &[HIDDEN]);
        add("mlp.gate_proj.weight", &[INNER, HIDDEN]);
        add("mlp.up_proj.weight", &[INNER, HIDDEN]);
        add("mlp.down_proj.weight", &[HIDDEN, INNER]);
        if biases {
            add("self_attn.q_proj.bias", &[HIDDEN]);
            add("self_attn.k_proj.bias", &[KEYS]);
            add("self_attn.v_proj.bias", &[KEYS]);
        }
    }
    all
}

pub(crate) fn gguf_name(name: &str) -> String {
    name.replace("model.embed_tokens", "token_embd")
        .replace("model.norm", "output_norm")
        .replace("lm_head", "output")
        .replace("model.layers", "blk")
        .replace("input_layernorm", "attn_norm")
        .replace("post_attention_layernorm", "ffn_norm")
        .replace("self_attn.o_proj", "attn_output")
        .replace("self_attn.", "attn_")
        .replace("mlp.", "ffn_")
        .replace("_proj", "")
}

/// A GGUF file in the making: metadata as bytes, tensors with their types.
#[derive(Clone)]
pub(crate) struct Gguf {
    pub(crate) version: u32,
    values: Vec<u8>,
    value_count: u64,
    pub(crate) tensors: Vec<(Tensor, u32)>,
    pub(crate) alignment: usize,
}

pub(crate) fn string(text: &str) -> Vec<u8> {
    let length = (text.len() as u64).to_le_bytes();
    [&length[..], text.as_bytes()].concat()
}

impl Gguf {
    pub(crate) fn empty() -> Self {
        Self {
            version: 3,
            values: Vec::new(),
            value_count: 0,
            tensors: Vec::new(),
            alignment: 32,
        }
    }

    /// A model of this architecture.
    pub(crate) fn model(architecture: &str, biases: bool, tied: bool) -> Self {
        let mut file = Self::empty();
        file.text("general.architecture", architecture);
        let numbers = [
            ("block_count", LAYERS),
            ("context_length", 128),
            ("embedding_length", HIDDEN),
            ("feed_forward_length", INNER),
            ("attention.head_count", 4),
            ("attention.head_count_kv", 2),
        ];
        for (key, number) in numbers {
            file.number(&format!("{architecture}.{key}"), number as u32);
        }
        let epsilon = format!("{architecture}.attention.layer_norm_rms_epsilon");
        file.raw(&epsilon, 6, &1e-5_f32.to_le_bytes());
        for mut tensor in tensors(biases, tied) {
            tensor.name = gguf_name(&tensor.name);
            file.tensors.push((tensor, 0));
        }
        file
    }

    pub(crate) fn raw(&mut self, key: &str, kind: u32, bytes: &[u8]) {
        self.values.extend(string(key));
        self.values.extend(kind.to_le_bytes());
        self.values.extend(bytes);
        self.value_count += 1;
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) {
        self.raw(key, 8, &string(text));
    }

    pub(crate) fn number(&mut self, key: &str, number: u32) {
        self.raw(key, 4, &number.to_le_bytes());
    }

    pub(crate) fn texts(&mut self, key: &str, texts: &[&str]) {
        let mut bytes = array(8, texts.len());
        bytes.extend(texts.iter().flat_map(|text| string(text)));
        self.raw(key, 9, &bytes);
    }

    pub(crate) fn integers(&mut self, key: &str, numbers: &[i32]) {
        let mut bytes = array(5, numbers.len());
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self.raw(key, 9, &bytes);
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut next = 0;
        let offsets = self.tensors.iter().map(|(tensor, _)| {
            let offset = next;
            next = (next + tensor.bytes.len()).next_multiple_of(self.alignment);
            offset as u64
        });
        let offsets: Vec<u64> = offsets.collect();
        self.bytes_with(&offsets)
    }

    /// With these offsets, whether they make sense or not.
    pub(crate) fn bytes_with(&self, offsets: &[u64]) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend(self.value_count.to_le_bytes());
        bytes.extend(&self.values);
        for ((tensor, kind), offset) in self.tensors.iter().zip(offsets) {
            bytes.extend(string(&tensor.name));
            bytes.extend((tensor.shape.len() as u32).to_le_bytes());
            let lengths = tensor.shape.iter().rev();
            bytes.extend(lengths.flat_map(|length| (*length as u64).to_le_bytes()));
            bytes.extend(kind.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
        }
        for (tensor, _) in &self.tensors {
            bytes.resize(bytes.len().next_multiple_of(self.alignment), 0);
            bytes.extend(&tensor.bytes);
        }
        bytes
    }
}

/// The head of an array.
pub(crate) fn array(kind: u32, count: usize) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &(count as u64).to_le_bytes()].concat()
}

pub(crate) fn safetensors(tensors: &[Tensor]) -> Vec<u8> {
    let mut header = Map::new();
    let mut data = Vec::new();
    for tensor in tensors {
        let begin = data.len();
        data.extend(&tensor.bytes);
        let about = json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [begin, data.len()]});
        header.insert(tensor.name.clone(), about);
    }
    with_header(&Value::Object(header).to_string(), &data)
}

pub(crate) fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [string(header), data.to_vec()].concat()
}

/// As transformers writes it for such a model.
pub(crate) fn config(class: &str, kind: &str) -> Value {
    json!({
        "architectures": [class], "model_type": kind, "hidden_act": "silu",
        "hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": WORDS,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
    })
}

pub(crate) fn write_folder(path: &Path, config: &Value, tensors: &[Tensor]) {
    fs::write(path.join("config.json"), config.to_string()).unwrap();
    fs::write(path.join("model.safetensors"), safetensors(tensors)).unwrap();
}

pub(crate) fn parsed(config: &Value) -> Result<ModelConfig, String> {
    ModelConfig::from_config_json("m", config.to_string().as_bytes())
        .map_err(|fault| fault.to_string())
}
