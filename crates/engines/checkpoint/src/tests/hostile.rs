//! Files that were changed or cut anywhere: they open or are refused, and take no more memory
//! than they have bytes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::build;
use crate::Checkpoint;
use crate::{Gguf, SafeTensors, Source};

/// Bytes that end in zeros, as many as one says; knows the largest read.
#[derive(Clone, Debug)]
struct Watched {
    bytes: Vec<u8>,
    size: u64,
    largest: Arc<AtomicUsize>,
}

impl Watched {
    fn new(bytes: Vec<u8>, size: u64) -> Self {
        let largest = Arc::default();
        Self {
            bytes,
            size,
            largest,
        }
    }
}

impl Source for Watched {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.largest.fetch_max(into.len(), Ordering::Relaxed);
        into.fill(0);
        let from = self.bytes.get(at as usize..).unwrap_or_default();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        Ok(())
    }
}

fn gguf() -> build::Gguf {
    let mut file = build::Gguf::model("qwen2", true, false);
    file.text("tokenizer.ggml.model", "gpt2");
    file.text("tokenizer.ggml.pre", "qwen2");
    file.texts("tokenizer.ggml.tokens", &["<|end|>", "a", "b", "ab"]);
    file.integers("tokenizer.ggml.token_type", &[3, 1, 1, 1]);
    file.texts("tokenizer.ggml.merges", &["a b"]);
    file.number("tokenizer.ggml.eos_token_id", 0);
    file
}

/// Whatever can be done with a file.
fn use_gguf(bytes: Vec<u8>) {
    let Ok(file) = Gguf::parse("m.gguf", bytes) else {
        return;
    };
    let Ok(opened) = Checkpoint::from_gguf(file) else {
        return;
    };
    let _ = opened.tokenizer();
    let mut bytes = Vec::new();
    for (name, info) in opened.tensors() {
        assert_eq!(&opened.read(name, &mut bytes).unwrap(), info);
        let row = info.format.bytes_for(info.columns).unwrap();
        assert_eq!(row * info.rows, bytes.len());
        info.format
            .dequantise(&bytes[..row], &mut vec![0.0; info.columns]);
    }
}

fn use_safetensors(bytes: Vec<u8>) {
    let Ok(file) = SafeTensors::parse("m", bytes) else {
        return;
    };
    let mut bytes = Vec::new();
    for (name, tensor) in file.tensors() {
        let _ = tensor.info();
        file.read(name, &mut bytes).unwrap();
        let elements: usize = tensor.shape.iter().product();
        assert_eq!(bytes.len(), elements * tensor.dtype.size());
    }
}

/// The header is where mistakes matter; the rest is numbers.
fn header(bytes: &[u8], data: usize) -> usize {
    bytes.len() - data
}

fn data() -> usize {
    let tensors = build::tensors(true, false);
    tensors.iter().map(|tensor| tensor.bytes.len()).sum()
}

#[test]
fn the_files_themselves_are_good() {
    let file = Gguf::parse("m.gguf", gguf().bytes()).unwrap();
    let opened = Checkpoint::from_gguf(file).unwrap();
    assert!(opened.tokenizer().unwrap().is_some());
    SafeTensors::parse("m", build::safetensors(&build::tensors(true, false))).unwrap();
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let whole = gguf().bytes();
    for length in (0..header(&whole, data())).chain([whole.len() - 1]) {
        assert!(
            Gguf::parse("m", whole[..length].to_vec()).is_err(),
            "{length}"
        );
    }
    let whole = build::safetensors(&build::tensors(true, false));
    for length in (0..header(&whole, data())).chain([whole.len() - 1]) {
        let cut = whole[..length].to_vec();
        assert!(SafeTensors::parse("m", cut).is_err(), "{length}");
    }
}

#[test]
fn a_claim_of_much_is_not_believed() {
    let claims = [
        (8, (1_u64 << 40).to_le_bytes().to_vec()),
        (9, build::array(8, 1 << 40)),
        (9, build::array(6, 1 << 40)),
        (9, build::array(9, 1 << 40)),
        (9, build::array(0, 1 << 40)),
    ];
    for (kind, bytes) in claims {
        let mut file = build::Gguf::empty();
        file.raw("k", kind, &bytes);
        let source = Watched::new(file.bytes(), 1 << 50);
        let largest = source.largest.clone();
        assert!(Gguf::parse("m", source).is_err());
        assert!(largest.load(Ordering::Relaxed) <= 64 << 10);
    }
    // A header that fills a huge file.
    let source = Watched::new((1_u64 << 40).to_le_bytes().to_vec(), 1 << 50);
    let largest = source.largest.clone();
    assert!(SafeTensors::parse("m", source).is_err());
    assert!(largest.load(Ordering::Relaxed) <= 8);
}

/// Some bytes of the header, replaced.
fn changes() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    let byte = prop_oneof![
        any::<u8>(),
        Just(0),
        Just(1),
        Just(127),
        Just(128),
        Just(255)
    ];
    prop::collection::vec((any::<prop::sample::Index>(), byte), 1..6)
}

fn changed(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) -> Vec<u8> {
    let header = header(&bytes, data());
    for (at, byte) in changes {
        bytes[at.index(header)] = *byte;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_changed_gguf_never_panics(changes in changes()) {
        use_gguf(changed(gguf().bytes(), &changes));
    }

    #[test]
    fn changed_safetensors_never_panic(changes in changes()) {
        let whole = build::safetensors(&build::tensors(true, false));
        use_safetensors(changed(whole, &changes));
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        use_gguf([b"GGUF\x03\0\0\0", &bytes[..]].concat());
        use_gguf(bytes.clone());
        use_safetensors(build::with_header(&String::from_utf8_lossy(&bytes), &bytes));
        use_safetensors(bytes);
    }

    #[test]
    fn a_changed_configuration_never_panics(changes in changes()) {
        let mut bytes = build::config("LlamaForCausalLM", "llama").to_string().into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(config) = crate::ModelConfig::from_config_json("m", &bytes) {
            prop_assert_eq!(config.heads % config.kv_heads, 0);
        }
    }
}
