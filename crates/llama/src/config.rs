//! What a model's files say of its shape.

/// Families that differ in what a layer computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 2 and 3, SmolLM2, and others of the same layers.
    Llama,
    /// The same with a bias on queries, keys and values.
    Qwen2,
}

/// Which components of a head are rotated together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairs {
    /// `i` and `i + half`: Hugging Face's weights, and GGUF's of Qwen2.
    Halves,
    /// `2 i` and `2 i + 1`: GGUF's weights of Llama, whose rows were reordered for it.
    Neighbours,
}

/// The shape of a model. Checked: every number is positive, heads divide evenly.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    pub architecture: Architecture,
    /// As the files call it, or the file's own name.
    pub name: String,
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width inside the feed-forward part.
    pub feed_forward: usize,
    pub heads: usize,
    /// Heads of keys and values; divides `heads`.
    pub kv_heads: usize,
    pub head_size: usize,
    pub vocabulary: usize,
    /// Longest context that the model was made for.
    pub context: usize,
    pub norm_epsilon: f32,
    pub rope_theta: f32,
    pub rope_pairs: RopePairs,
    /// What each frequency is divided by (llama3 scaling); one for each of half a head, or none.
    pub rope_divisors: Option<Vec<f32>>,
    /// The output layer is the table of embeddings.
    pub tied_embeddings: bool,
    pub qkv_bias: bool,
}
