//! How an executor ends.

use checkpoint::ModelConfig;

use super::*;
use crate::ops::host::HostOps;
use crate::weights::Storage;

const SHAPE: &str = r#"{"model_type": "llama", "hidden_size": 16, "intermediate_size": 16,
    "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 16,
    "max_position_embeddings": 32, "rms_norm_eps": 1e-5}"#;

#[test]
fn an_executor_that_is_dropped_has_given_its_memory_back() {
    let config = ModelConfig::from_config_json("small", SHAPE.as_bytes()).unwrap();
    let mut ops = HostOps::new(1 << 20);
    let weights = LoadedWeights::random(&mut ops, &config, Storage::Exact).unwrap();
    let options = ExecutorOptions {
        model: ModelOptions {
            slots: 1,
            step_tokens: 32,
            outputs: 1,
            context: 32,
            blocks: 1,
        },
        speculation: Speculation::None,
        drafts: 0,
        adapts: false,
        vocabulary: None,
    };
    let executor = CudaExecutor::new(ops, &weights, options).unwrap();
    assert_eq!(Arc::strong_count(&weights.weights), 2, "the thread's model");
    drop(executor);
    assert_eq!(
        Arc::strong_count(&weights.weights),
        1,
        "its thread has ended"
    );
}
