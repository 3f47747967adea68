//! A GGUF file that anybody may have written.
//!
//! Asserts that a header is read or refused, that every tensor has the bytes which its format
//! says and the file has them all, that a model's tensors can be read and dequantised, and that
//! nothing about its tokenizer panics.

#![no_main]

use checkpoint::{Checkpoint, Gguf, TensorInfo};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(file) = Gguf::parse("model.gguf", bytes.to_vec()) else {
        return;
    };
    let all: usize = file.tensors().map(|(_, info)| stored(info)).sum();
    assert!(all <= bytes.len());
    let mut content = Vec::new();
    for (name, info) in file.tensors() {
        assert_eq!(&file.read(name, &mut content).expect("it is there"), info);
        check(info, &content);
    }
    let Ok(model) = Checkpoint::from_gguf(file) else {
        return;
    };
    let config = model.config();
    assert_eq!(config.heads % config.kv_heads, 0);
    assert!(model.stored_bytes() <= all as u64);
    if let Ok(Some(tokenizer)) = model.tokenizer() {
        assert!(tokenizer.tokenizer_json.starts_with('{'));
        assert!(!tokenizer.add_bos || tokenizer.bos.is_some());
    }
    for (name, info) in model.tensors() {
        model.read(name, &mut content).expect("it is there");
        check(info, &content);
    }
});

fn stored(info: &TensorInfo) -> usize {
    let row = info.format.bytes_for(info.columns).expect("whole blocks");
    row * info.rows
}

/// The first row stands for all.
fn check(info: &TensorInfo, content: &[u8]) {
    assert_eq!(content.len(), stored(info));
    let row = content.len() / info.rows;
    let mut numbers = vec![0.0; info.columns];
    info.format.dequantise(&content[..row], &mut numbers);
}
