//! A model's weights in memory.

use checkpoint::{Checkpoint, Format, LoadError, ModelConfig, TensorInfo};

use crate::buffer::OutOfMemory;
use crate::layout::LANES;
use crate::matrix::{Matrix, MatrixError, Packer};

/// Why weights could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("tensor `{tensor}`: {error}")]
    Tensor { tensor: String, error: MatrixError },
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
    #[error("cannot start threads: {0}")]
    Threads(std::io::Error),
}

/// One decoder layer.
#[derive(Debug)]
pub(crate) struct Layer {
    pub(crate) attention_norm: Vec<f32>,
    /// Queries, keys and values.
    pub(crate) qkv: [Matrix; 3],
    pub(crate) qkv_bias: Option<[Vec<f32>; 3]>,
    pub(crate) attention_output: Matrix,
    pub(crate) feed_forward_norm: Vec<f32>,
    pub(crate) gate: Matrix,
    pub(crate) up: Matrix,
    pub(crate) down: Matrix,
}

#[derive(Debug)]
pub(crate) struct Weights {
    pub(crate) embeddings: Matrix,
    pub(crate) layers: Vec<Layer>,
    pub(crate) norm: Vec<f32>,
    /// None if the embeddings are used.
    pub(crate) head: Option<Matrix>,
}

/// Loads a checkpoint. `progress` is told of bytes as they are done.
pub(crate) fn load(
    checkpoint: &Checkpoint,
    progress: &mut dyn FnMut(u64),
) -> Result<Weights, WeightsError> {
    let config = checkpoint.config();
    let mut reader = Reader {
        checkpoint,
        progress,
        bytes: Vec::new(),
    };
    let embeddings = reader.matrix("model.embed_tokens.weight")?;
    let layers = (0..config.layers).map(|index| reader.layer(index, config));
    let layers = layers.collect::<Result<_, _>>()?;
    let norm = reader.vector("model.norm.weight")?;
    let head = match config.tied_embeddings {
        true => None,
        false => Some(reader.matrix("lm_head.weight")?),
    };
    Ok(Weights {
        embeddings,
        layers,
        norm,
        head,
    })
}

/// Memory that a checkpoint's weights take when they are loaded.
pub(crate) fn bytes_of(checkpoint: &Checkpoint) -> u64 {
    // FP8 becomes BF16. Scales are small beside it.
    let fp8 = |info: &&TensorInfo| info.format == Format::E4m3;
    let each = checkpoint.tensors().map(|(_, info)| info).filter(fp8);
    let again: u64 = each.map(|info| (info.rows * info.columns) as u64).sum();
    checkpoint.stored_bytes() + again
}

impl Weights {
    /// Memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        let layers = self.layers.iter().map(|layer| {
            let [q, k, v] = &layer.qkv;
            let parts = [
                q,
                k,
                v,
                &layer.attention_output,
                &layer.gate,
                &layer.up,
                &layer.down,
            ];
            parts.into_iter().map(Matrix::bytes).sum::<usize>()
        });
        layers.sum::<usize>()
            + self.embeddings.bytes()
            + self.head.as_ref().map_or(0, Matrix::bytes)
    }

    pub(crate) fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embeddings)
    }
}

struct Reader<'a> {
    checkpoint: &'a Checkpoint,
    progress: &'a mut dyn FnMut(u64),
    bytes: Vec<u8>,
}

impl Reader<'_> {
    fn layer(&mut self, index: usize, config: &ModelConfig) -> Result<Layer, WeightsError> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let qkv = ["q", "k", "v"].map(|part| name(&format!("self_attn.{part}_proj")));
        let [q, k, v] = &qkv;
        let weight = |name: &str| format!("{name}.weight");
        let bias = |name: &str| format!("{name}.bias");
        let qkv_bias = match config.qkv_bias {
            true => Some([
                self.vector(&bias(q))?,
                self.vector(&bias(k))?,
                self.vector(&bias(v))?,
            ]),
            false => None,
        };
        Ok(Layer {
            attention_norm: self.vector(&name("input_layernorm.weight"))?,
            qkv: [
                self.matrix(&weight(q))?,
                self.matrix(&weight(k))?,
                self.matrix(&weight(v))?,
            ],
            qkv_bias,
            attention_output: self.matrix(&name("self_attn.o_proj.weight"))?,
            feed_forward_norm: self.vector(&name("post_attention_layernorm.weight"))?,
            gate: self.matrix(&name("mlp.gate_proj.weight"))?,
            up: self.matrix(&name("mlp.up_proj.weight"))?,
            down: self.matrix(&name("mlp.down_proj.weight"))?,
        })
    }

    fn matrix(&mut self, name: &str) -> Result<Matrix, WeightsError> {
        let info = self.checkpoint.read(name, &mut self.bytes)?;
        let mut matrix = matrix(name, &info, &self.bytes)?;
        if let Some(scales) = self.checkpoint.row_scales(name)? {
            matrix.scale_rows(&scales);
        }
        (self.progress)(self.bytes.len() as u64);
        Ok(matrix)
    }

    fn vector(&mut self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let info = self.checkpoint.read(name, &mut self.bytes)?;
        vector(name, &info, &self.bytes)
    }
}

/// A tensor's bytes in the order of the kernels.
pub(crate) fn matrix(name: &str, info: &TensorInfo, bytes: &[u8]) -> Result<Matrix, WeightsError> {
    let mut packer = Packer::new(info.format, info.rows, info.columns);
    let packed = packer.rows(0, bytes);
    packed.map_err(|error| WeightsError::Tensor {
        tensor: name.to_owned(),
        error,
    })?;
    Ok(packer.finish())
}

/// A tensor's plain numbers, filled up with zeros as activations are.
pub(crate) fn vector(
    name: &str,
    info: &TensorInfo,
    bytes: &[u8],
) -> Result<Vec<f32>, WeightsError> {
    let mut numbers = vec![0.0; info.rows * info.columns];
    info.format.dequantise(bytes, &mut numbers);
    if let Some(row) = numbers.iter().position(|number| !number.is_finite()) {
        return Err(WeightsError::Tensor {
            tensor: name.to_owned(),
            error: MatrixError::NotFinite { row },
        });
    }
    numbers.resize(numbers.len().next_multiple_of(2 * LANES), 0.0);
    Ok(numbers)
}
