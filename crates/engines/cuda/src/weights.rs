//! A model's weights in the device's memory.
//!
//! Queries, keys and values are one matrix, and so are gates and ups: fewer and larger products.
//! Matrices are stored as [`Storage`] says; the table of embeddings and the output layer stay BF16
//! beside FP8, because their rounding would be seen in every token. Norms and biases are F32.
//!
//! What a file has in FP8 stays as it is, with its own scales: each output of a fused matrix has the
//! scale of the tensor that it came from.

mod load;
mod random;

use std::sync::Arc;

use checkpoint::{CacheScales, Checkpoint, LoadError, ModelConfig};

use crate::ops::{Dtype, Ops, OpsError, Weight};

/// Why weights are not in the device's memory.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("tensor `{tensor}`: a number in row {row} is not finite")]
    NotFinite { tensor: String, row: usize },
    #[error(transparent)]
    Ops(#[from] OpsError),
}

/// How a model is stored and computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Everything in F32: what an exact engine says. For the twin.
    Exact,
    /// Weights and activations in BF16.
    Bf16 { cache: CacheDtype },
    /// Weights and activations in FP8.
    Fp8 { cache: CacheDtype },
}

/// How keys and values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheDtype {
    Bf16,
    Fp8,
}

impl Storage {
    /// Of matrices inside of layers, and of what they multiply.
    pub fn weights(self) -> Dtype {
        match self {
            Self::Exact => Dtype::F32,
            Self::Bf16 { .. } => Dtype::Bf16,
            Self::Fp8 { .. } => Dtype::Fp8,
        }
    }

    /// Of embeddings and the output layer, of products, and of queries.
    pub fn products(self) -> Dtype {
        match self {
            Self::Exact => Dtype::F32,
            Self::Bf16 { .. } | Self::Fp8 { .. } => Dtype::Bf16,
        }
    }

    /// Of keys and values.
    pub fn cache(self) -> Dtype {
        match self {
            Self::Exact => Dtype::F32,
            Self::Bf16 { cache } | Self::Fp8 { cache } => match cache {
                CacheDtype::Bf16 => Dtype::Bf16,
                CacheDtype::Fp8 => Dtype::Fp8,
            },
        }
    }
}

/// One decoder layer.
#[derive(Debug)]
pub(crate) struct Layer<B> {
    pub(crate) attention_norm: B,
    /// Outputs are queries, keys and values.
    pub(crate) qkv: Weight<B>,
    pub(crate) qkv_bias: Option<B>,
    pub(crate) attention_output: Weight<B>,
    pub(crate) feed_forward_norm: B,
    /// Outputs are gates and ups.
    pub(crate) gate_up: Weight<B>,
    pub(crate) down: Weight<B>,
    /// Of its keys and values, where they are FP8.
    pub(crate) cache_scales: CacheScales,
}

#[derive(Debug)]
pub(crate) struct Weights<B> {
    pub(crate) embeddings: Weight<B>,
    pub(crate) layers: Vec<Layer<B>>,
    pub(crate) norm: B,
    /// None if the embeddings are used.
    pub(crate) head: Option<Weight<B>>,
}

impl<B> Weights<B> {
    pub(crate) fn head(&self) -> &Weight<B> {
        self.head.as_ref().unwrap_or(&self.embeddings)
    }
}

/// Weights on the device, and the shape that they fill. Cheap to clone.
#[derive(Debug)]
pub struct LoadedWeights<B> {
    pub(crate) config: ModelConfig,
    pub(crate) storage: Storage,
    pub(crate) weights: Arc<Weights<B>>,
    bytes: usize,
}

impl<B> Clone for LoadedWeights<B> {
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            storage: self.storage,
            weights: Arc::clone(&self.weights),
            bytes: self.bytes,
        }
    }
}

impl<B> LoadedWeights<B> {
    /// Loads a checkpoint. `progress` is told how many more bytes of its files are done.
    pub fn load<O: Ops<Buffer = B>>(
        ops: &mut O,
        checkpoint: &Checkpoint,
        storage: Storage,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, WeightsError> {
        let config = checkpoint.config().clone();
        let mut source = load::Files::new(checkpoint, progress);
        Self::build(ops, config, storage, &mut source)
    }

    /// Random weights of a shape, for measuring: what such a model says means nothing.
    pub fn random<O: Ops<Buffer = B>>(
        ops: &mut O,
        config: &ModelConfig,
        storage: Storage,
    ) -> Result<Self, WeightsError> {
        Self::build(ops, config.clone(), storage, &mut random::Random::default())
    }

    fn build<O: Ops<Buffer = B>>(
        ops: &mut O,
        config: ModelConfig,
        storage: Storage,
        source: &mut impl Source<O>,
    ) -> Result<Self, WeightsError> {
        let shape = Shape::new(&config);
        let weights = source.table(ops, "model.embed_tokens.weight", &shape, storage)?;
        let layers = (0..config.layers).map(|index| layer(ops, index, &shape, (storage, source)));
        let layers = layers.collect::<Result<_, _>>()?;
        let norm = source.vector(ops, &["model.norm.weight".to_owned()], shape.hidden)?;
        let head = match config.tied_embeddings {
            true => None,
            false => Some(source.table(ops, "lm_head.weight", &shape, storage)?),
        };
        // Others may read the weights when all of them have been written.
        ops.read(&norm, 0, &mut [0; 4])?;
        let bytes = bytes_of(&config, storage);
        Ok(Self {
            weights: Arc::new(Weights {
                embeddings: weights,
                layers,
                norm,
                head,
            }),
            config,
            storage,
            bytes,
        })
    }

    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    pub fn storage(&self) -> Storage {
        self.storage
    }

    /// Memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Memory that a model's weights take on the device.
pub fn bytes_of(config: &ModelConfig, storage: Storage) -> usize {
    let shape = Shape::new(config);
    let matrices = [
        (shape.qkv(), shape.hidden),
        (shape.hidden, shape.queries),
        (2 * shape.inner, shape.hidden),
        (shape.hidden, shape.inner),
    ];
    let dtype = storage.weights();
    let scales = match dtype {
        Dtype::Fp8 => 4,
        Dtype::F32 | Dtype::Bf16 => 0,
    };
    let layer: usize = matrices
        .iter()
        .map(|(outputs, inputs)| outputs * (inputs * dtype.bytes() + scales))
        .sum();
    let bias = if config.qkv_bias { 4 * shape.qkv() } else { 0 };
    let tables = if config.tied_embeddings { 1 } else { 2 };
    let table = config.vocabulary * config.hidden * storage.products().bytes();
    let norms = (2 * config.layers + 1) * 4 * config.hidden;
    config.layers * (layer + bias) + tables * table + norms
}

/// Widths of a model's matrices.
#[derive(Clone, Copy, Debug)]
struct Shape {
    hidden: usize,
    queries: usize,
    keys: usize,
    inner: usize,
    vocabulary: usize,
    has_bias: bool,
}

impl Shape {
    fn new(config: &ModelConfig) -> Self {
        Self {
            hidden: config.hidden,
            queries: config.heads * config.head_size,
            keys: config.kv_heads * config.head_size,
            inner: config.feed_forward,
            vocabulary: config.vocabulary,
            has_bias: config.qkv_bias,
        }
    }

    fn qkv(&self) -> usize {
        self.queries + 2 * self.keys
    }
}

/// A matrix of several tensors, one below the other.
#[derive(Debug)]
struct Fused<'a> {
    /// Names and outputs.
    tensors: &'a [(String, usize)],
    inputs: usize,
    dtype: Dtype,
}

impl Fused<'_> {
    fn outputs(&self) -> usize {
        self.tensors.iter().map(|(_, outputs)| outputs).sum()
    }
}

/// Where weights come from.
trait Source<O: Ops> {
    fn matrix(&mut self, ops: &mut O, matrix: Fused<'_>)
    -> Result<Weight<O::Buffer>, WeightsError>;

    /// Several vectors one after the other, `width` numbers in all.
    fn vector(
        &mut self,
        ops: &mut O,
        names: &[String],
        width: usize,
    ) -> Result<O::Buffer, WeightsError>;

    /// Of a layer's keys and values.
    fn cache_scales(&self, layer: usize) -> Result<CacheScales, WeightsError>;

    /// A row for each token.
    fn table(
        &mut self,
        ops: &mut O,
        name: &str,
        shape: &Shape,
        storage: Storage,
    ) -> Result<Weight<O::Buffer>, WeightsError> {
        let matrix = Fused {
            tensors: &[(name.to_owned(), shape.vocabulary)],
            inputs: shape.hidden,
            dtype: storage.products(),
        };
        self.matrix(ops, matrix)
    }
}

fn layer<O: Ops>(
    ops: &mut O,
    index: usize,
    shape: &Shape,
    (storage, source): (Storage, &mut impl Source<O>),
) -> Result<Layer<O::Buffer>, WeightsError> {
    let name = |part: &str| format!("model.layers.{index}.{part}");
    let weight = |part: &str, outputs: usize| (name(&format!("{part}_proj.weight")), outputs);
    let dtype = storage.weights();
    let mut matrix = |ops: &mut O, tensors: &[(String, usize)], inputs| {
        let matrix = Fused {
            tensors,
            inputs,
            dtype,
        };
        source.matrix(ops, matrix)
    };
    let qkv = [
        weight("self_attn.q", shape.queries),
        weight("self_attn.k", shape.keys),
        weight("self_attn.v", shape.keys),
    ];
    let qkv = matrix(ops, &qkv, shape.hidden)?;
    let output = [weight("self_attn.o", shape.hidden)];
    let attention_output = matrix(ops, &output, shape.queries)?;
    let gate_up = [
        weight("mlp.gate", shape.inner),
        weight("mlp.up", shape.inner),
    ];
    let gate_up = matrix(ops, &gate_up, shape.hidden)?;
    let down = matrix(ops, &[weight("mlp.down", shape.hidden)], shape.inner)?;
    let bias = ["q", "k", "v"].map(|part| name(&format!("self_attn.{part}_proj.bias")));
    let mut norm = |ops: &mut O, part: &str| {
        let names = [name(&format!("{part}_layernorm.weight"))];
        source.vector(ops, &names, shape.hidden)
    };
    let attention_norm = norm(ops, "input")?;
    let feed_forward_norm = norm(ops, "post_attention")?;
    Ok(Layer {
        attention_norm,
        qkv,
        qkv_bias: match shape.has_bias {
            true => Some(source.vector(ops, &bias, shape.qkv())?),
            false => None,
        },
        attention_output,
        feed_forward_norm,
        gate_up,
        down,
        cache_scales: match storage.cache() {
            Dtype::Fp8 => source.cache_scales(index)?,
            Dtype::F32 | Dtype::Bf16 => CacheScales::NONE,
        },
    })
}
