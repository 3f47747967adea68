//! Shapes of models.

use cuda::ops::PAGE_TOKENS;

/// Sizes of a model of the Llama family.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) layers: usize,
    pub(crate) hidden: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_size: usize,
    pub(crate) intermediate: usize,
    pub(crate) vocabulary: usize,
}

pub(crate) const LARGE: Shape = Shape {
    name: "70b",
    layers: 80,
    hidden: 8192,
    heads: 64,
    kv_heads: 8,
    head_size: 128,
    intermediate: 28_672,
    vocabulary: 128_256,
};

pub(crate) const SMALL: Shape = Shape {
    name: "8b",
    layers: 32,
    hidden: 4096,
    heads: 32,
    kv_heads: 8,
    head_size: 128,
    intermediate: 14_336,
    vocabulary: 128_256,
};

/// For trying the program on the host.
pub(crate) const TINY: Shape = Shape {
    name: "tiny",
    layers: 2,
    hidden: 64,
    heads: 4,
    kv_heads: 2,
    head_size: 16,
    intermediate: 128,
    vocabulary: 300,
};

impl Shape {
    /// As a model's `config.json` says it.
    pub(crate) fn json(&self) -> String {
        serde_json::json!({
            "model_type": "llama",
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_size,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-5,
        })
        .to_string()
    }

    /// Numbers of a row of queries, keys and values.
    pub(crate) fn qkv(&self) -> usize {
        (self.heads + 2 * self.kv_heads) * self.head_size
    }

    pub(crate) fn queries(&self) -> usize {
        self.heads * self.head_size
    }

    /// What a step reads of weights, at least: all but the embedding table.
    pub(crate) fn weight_bytes(&self) -> usize {
        let layer = self.hidden * (self.qkv() + self.queries() + 3 * self.intermediate);
        self.layers * layer + self.vocabulary * self.hidden * 2
    }

    /// Keys and values that a step reads of a sequence, in whole pages.
    pub(crate) fn cached_bytes(&self, context: usize) -> usize {
        let page = 2 * PAGE_TOKENS * self.head_size;
        context.div_ceil(PAGE_TOKENS) * self.layers * self.kv_heads * page
    }

    /// What attention of a prompt has to multiply and add, causally.
    pub(crate) fn attention_operations(&self, prompt: usize) -> f64 {
        let pairs = (prompt * (prompt + 1) / 2) as f64;
        4.0 * pairs * (self.layers * self.queries()) as f64
    }
}
