//! A safetensors file, or the configuration beside it, that anybody may have written.
//!
//! Asserts that either is read or refused, that tensors fill their file and each has the bytes
//! which its shape says, and that heads of a model divide evenly. The first byte chooses.

#![no_main]

use checkpoint::{ModelConfig, SafeTensors};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&kind, bytes)) = input.split_first() else {
        return;
    };
    if kind & 1 == 1 {
        if let Ok(config) = ModelConfig::from_config_json("model", bytes) {
            assert_eq!(config.heads % config.kv_heads, 0);
            let divisors = config.rope_divisors.iter().flatten();
            assert!(divisors.clone().all(|by| by.is_finite() && *by > 0.0));
            assert!(config.rope_divisors.is_none() || divisors.count() * 2 == config.head_size);
        }
        return;
    }
    let Ok(file) = SafeTensors::parse("model.safetensors", bytes.to_vec()) else {
        return;
    };
    let (mut content, mut all) = (Vec::new(), 0);
    for (name, tensor) in file.tensors() {
        file.read(name, &mut content).expect("it is there");
        let elements: usize = tensor.shape.iter().product();
        assert_eq!(content.len(), elements * tensor.dtype.size());
        all += content.len();
    }
    assert!(all <= bytes.len());
});
