//! A head's weights in memory, from its files.

use checkpoint::{HeadFiles, ModelConfig, Shape, TensorInfo};

use super::HeadWeights;
use crate::matrix::Matrix;
use crate::weights::{self, Layer, WeightsError};

/// Reads the weights of a head for `target`.
pub(super) fn load(files: &HeadFiles, target: &ModelConfig) -> Result<HeadWeights, WeightsError> {
    files.check(target)?;
    let config = files.config();
    let taps = files.taps(target);
    let mut reader = Reader {
        files,
        bytes: Vec::new(),
    };
    let tokens = files.tokens(target.vocabulary)?;
    let hidden = config.hidden;
    let embeddings = match files.embeddings(target)? {
        Some(name) => Some(reader.matrix(name, target.vocabulary, hidden)?),
        None => None,
    };
    Ok(HeadWeights {
        target_hidden: files.target_hidden(),
        norm_before_residual: files.norm_before_residual(),
        fuse: reader.matrix("fc.weight", hidden, taps.len() * files.target_hidden())?,
        hidden_norm: reader.layer_vector("hidden_norm.weight")?,
        layer: reader.layer(config)?,
        norm: reader.vector("norm.weight")?,
        output: reader.matrix("lm_head.weight", tokens.len(), hidden)?,
        config: ModelConfig {
            vocabulary: tokens.len(),
            ..config.clone()
        },
        tokens,
        taps,
        embeddings,
    })
}

struct Reader<'a> {
    files: &'a HeadFiles,
    bytes: Vec<u8>,
}

impl Reader<'_> {
    /// The decoder layer, whose attention sees an embedding beside a state.
    fn layer(&mut self, config: &ModelConfig) -> Result<Layer, WeightsError> {
        let (hidden, inner, size) = (config.hidden, config.feed_forward, config.head_size);
        let (heads, kv_heads) = (config.heads * size, config.kv_heads * size);
        Ok(Layer {
            attention_norm: self.layer_vector("input_layernorm.weight")?,
            qkv: [
                self.layer_matrix("self_attn.q_proj.weight", heads, 2 * hidden)?,
                self.layer_matrix("self_attn.k_proj.weight", kv_heads, 2 * hidden)?,
                self.layer_matrix("self_attn.v_proj.weight", kv_heads, 2 * hidden)?,
            ],
            qkv_bias: None,
            attention_output: self.layer_matrix("self_attn.o_proj.weight", hidden, heads)?,
            feed_forward_norm: self.layer_vector("post_attention_layernorm.weight")?,
            gate: self.layer_matrix("mlp.gate_proj.weight", inner, hidden)?,
            up: self.layer_matrix("mlp.up_proj.weight", inner, hidden)?,
            down: self.layer_matrix("mlp.down_proj.weight", hidden, inner)?,
        })
    }

    fn layer_matrix(
        &mut self,
        part: &str,
        rows: usize,
        columns: usize,
    ) -> Result<Matrix, WeightsError> {
        self.matrix(&self.files.layer_tensor(part), rows, columns)
    }

    fn layer_vector(&mut self, part: &str) -> Result<Vec<f32>, WeightsError> {
        self.vector(&self.files.layer_tensor(part))
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Matrix, WeightsError> {
        let info = self.read(name, Shape::Matrix { rows, columns })?;
        weights::matrix(name, &info, &self.bytes)
    }

    fn vector(&mut self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let info = self.read(name, Shape::Vector)?;
        weights::vector(name, &info, &self.bytes)
    }

    fn read(&mut self, name: &str, shape: Shape) -> Result<TensorInfo, WeightsError> {
        Ok(self.files.read(name, shape, &mut self.bytes)?)
    }
}
