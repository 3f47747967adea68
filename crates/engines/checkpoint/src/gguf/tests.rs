//! Headers of GGUF: values, places of tensors, and shapes of models.

use super::*;
use crate::config::{Architecture, ModelConfig, RopePairs};
use crate::tests::build;
use crate::tests::build::{array, string};

fn parsed(file: &build::Gguf) -> Gguf {
    Gguf::parse("m.gguf", file.bytes()).unwrap()
}

fn refused(bytes: Vec<u8>) -> String {
    let said = Gguf::parse("m.gguf", bytes).expect_err("it should be refused");
    said.to_string()
}

#[test]
fn every_type_of_value_is_read() {
    let mut file = build::Gguf::empty();
    file.version = 2;
    let values: [(u32, &[u8], Value); 14] = [
        (0, &[200], Value::Unsigned(200)),
        (1, &[200], Value::Signed(-56)),
        (2, &[1, 2], Value::Unsigned(0x201)),
        (3, &[255, 255], Value::Signed(-1)),
        (4, &[1, 0, 0, 128], Value::Unsigned(0x8000_0001)),
        (5, &[254, 255, 255, 255], Value::Signed(-2)),
        (6, &0.5_f32.to_le_bytes(), Value::Float(0.5)),
        (7, &[1], Value::Bool(true)),
        (8, &string("né"), Value::String("né".to_owned())),
        (9, &array(8, 0), Value::Strings(Vec::new())),
        (10, &u64::MAX.to_le_bytes(), Value::Unsigned(u64::MAX)),
        (11, &(-3_i64).to_le_bytes(), Value::Signed(-3)),
        (12, &0.1_f64.to_le_bytes(), Value::Float(0.1)),
        (
            9,
            &[array(9, 1), array(7, 2), vec![0, 1]].concat(),
            Value::Skipped,
        ),
    ];
    for (i, (kind, bytes, _)) in values.iter().enumerate() {
        file.raw(&i.to_string(), *kind, bytes);
    }
    file.integers("numbers", &[1, -1]);
    file.raw(
        "floats",
        9,
        &[array(6, 1), 2.0_f32.to_le_bytes().to_vec()].concat(),
    );
    let file = parsed(&file);
    for (i, (_, _, value)) in values.iter().enumerate() {
        assert_eq!(file.metadata(&i.to_string()), Some(value));
    }
    assert_eq!(
        file.metadata("numbers"),
        Some(&Value::Integers(vec![1, -1]))
    );
    assert_eq!(file.metadata("floats"), Some(&Value::Floats(vec![2.0])));
    assert_eq!(file.metadata("other"), None);
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let with = |kind: u32, bytes: &[u8]| {
        let mut file = build::Gguf::empty();
        file.raw("k", kind, bytes);
        refused(file.bytes())
    };
    assert!(with(13, &[]).ends_with("k: values have no type 13"));
    assert!(with(7, &[2]).ends_with("k: a truth value of 2"));
    assert!(with(8, &[1, 0, 0, 0, 0, 0, 0, 0, 255]).contains("not UTF-8"));
    assert!(with(8, &u64::MAX.to_le_bytes()).contains("a string of"));
    assert!(with(8, &[9, 0, 0, 0, 0, 0, 0, 0, 1]).contains("the header ends"));
    assert!(with(9, &array(4, usize::MAX)).contains("the header ends"));
    let deep = std::iter::repeat_with(|| array(9, 1)).take(9).flatten();
    assert!(with(9, &deep.collect::<Vec<_>>()).contains("arrays within"));
    let mut twice = build::Gguf::empty();
    twice.number("k", 1);
    twice.number("k", 1);
    assert!(refused(twice.bytes()).ends_with("k appears twice"));
}

#[test]
fn other_files_and_versions_are_refused() {
    assert!(refused(b"PK\x03\x04....".to_vec()).contains("not a GGUF file"));
    assert!(refused(b"GG".to_vec()).contains("the header ends"));
    let version = |version| {
        let mut file = build::Gguf::empty();
        file.version = version;
        refused(file.bytes())
    };
    assert!(version(1).contains("version 1 is not supported"));
    assert!(version(4).contains("version 4 is not supported"));
    assert!(version(3_u32.swap_bytes()).contains("big-endian"));
}

#[test]
fn alignment_is_what_the_file_says() {
    let mut file = build::Gguf::model("llama", false, true);
    file.number("general.alignment", 128);
    file.alignment = 128;
    let opened = parsed(&file);
    let mut bytes = Vec::new();
    for (tensor, _) in &file.tensors {
        opened.read(&tensor.name, &mut bytes).unwrap();
        assert_eq!(bytes, tensor.bytes);
    }
    for wrong in [0, 24, 1 << 30] {
        let mut file = build::Gguf::empty();
        file.number("general.alignment", wrong);
        assert!(refused(file.bytes()).contains("general.alignment"));
    }
}

fn two(one: u64, other: u64) -> Vec<u8> {
    let mut file = build::Gguf::model("llama", false, true);
    file.tensors.truncate(2);
    file.tensors[0].0.name = "one".to_owned();
    file.tensors[1].0.name = "other".to_owned();
    file.bytes_with(&[one, other])
}

#[test]
fn tensors_lie_apart_and_inside_the_file() {
    // The first has 40 x 32 floats, the second 32.
    let opened = Gguf::parse("m", two(0, 5120)).unwrap();
    assert_eq!(opened.tensors().count(), 2);
    assert!(refused(two(0, 5088)).contains("tensor other overlaps"));
    assert!(refused(two(0, 0)).contains("overlaps"));
    assert!(refused(two(0, 5121)).contains("tensor other is not aligned to 32: 5121"));
    assert!(refused(two(0, 5152)).contains("tensor other ends at"));
    assert!(refused(two(0, u64::MAX - 31)).contains("too large"));
}

#[test]
fn tensors_of_other_kinds_are_named() {
    let with = |change: &dyn Fn(&mut build::Tensor, &mut u32)| {
        let mut file = build::Gguf::model("llama", false, true);
        file.tensors.truncate(1);
        let (tensor, kind) = &mut file.tensors[0];
        tensor.name = "t".to_owned();
        change(tensor, kind);
        refused(file.bytes())
    };
    let said = with(&|_, kind| *kind = 16);
    assert!(
        said.contains("tensor t is stored as IQ2_XXS, which"),
        "{said}"
    );
    assert!(with(&|_, kind| *kind = 999).contains("type 999"));
    assert!(with(&|tensor, _| tensor.shape = vec![]).contains("0 dimensions"));
    assert!(with(&|tensor, _| tensor.shape = vec![1; 5]).contains("5 dimensions"));
    assert!(with(&|tensor, _| tensor.shape = vec![4, 0]).contains("cannot have the shape"));
    let said = with(&|tensor, _| tensor.shape = vec![usize::MAX; 3]);
    assert!(said.contains("cannot have the shape"), "{said}");
    let said = with(&|tensor, _| tensor.shape = vec![2, usize::MAX / 4]);
    assert!(said.contains("too large"), "{said}");
    let said = with(&|tensor, kind| (tensor.shape, *kind) = (vec![2, 48], 8));
    assert!(
        said.contains("48 columns are not whole blocks of 32 in Q8_0"),
        "{said}"
    );
}

#[test]
fn a_model_of_qwen_and_one_of_llama() {
    let llama = parsed(&build::Gguf::model("llama", false, true))
        .config()
        .unwrap();
    let expected = ModelConfig {
        architecture: Architecture::Llama,
        name: "m".to_owned(),
        layers: 2,
        hidden: 32,
        feed_forward: 64,
        heads: 4,
        kv_heads: 2,
        head_size: 8,
        vocabulary: 40,
        context: 128,
        norm_epsilon: 1e-5,
        rope_theta: 10_000.0,
        rope_pairs: RopePairs::Neighbours,
        rope_divisors: None,
        tied_embeddings: true,
        qkv_bias: false,
    };
    assert_eq!(llama, expected);
    let mut qwen = build::Gguf::model("qwen2", true, false);
    qwen.text("general.name", "Q");
    qwen.raw("qwen2.rope.freq_base", 6, &1e6_f32.to_le_bytes());
    let expected = ModelConfig {
        architecture: Architecture::Qwen2,
        name: "Q".to_owned(),
        rope_theta: 1e6,
        rope_pairs: RopePairs::Halves,
        tied_embeddings: false,
        qkv_bias: true,
        ..expected
    };
    assert_eq!(parsed(&qwen).config().unwrap(), expected);
}

#[test]
fn divisors_of_rotation_are_a_tensor() {
    let with = |divisors: &[f32]| {
        let mut file = build::Gguf::model("llama", false, true);
        let tensor = build::Tensor {
            name: "rope_freqs.weight".to_owned(),
            dtype: "F32",
            shape: vec![divisors.len()],
            bytes: divisors.iter().flat_map(|by| by.to_le_bytes()).collect(),
        };
        file.tensors.push((tensor, 0));
        parsed(&file)
    };
    let divisors = [1.0, 1.0, 2.5, 8.0];
    let file = with(&divisors);
    assert_eq!(
        file.config().unwrap().rope_divisors,
        Some(divisors.to_vec())
    );
    crate::Checkpoint::from_gguf(file).unwrap();
    for wrong in [
        &divisors[..3],
        &[1.0, 0.0, 1.0, 1.0],
        &[1.0, 1.0, f32::NAN, 1.0],
    ] {
        assert!(with(wrong).config().is_err());
    }
}

#[test]
fn models_that_we_cannot_compute_are_refused_by_name() {
    let with = |change: &dyn Fn(&mut build::Gguf)| {
        let mut file = build::Gguf::model("llama", false, true);
        change(&mut file);
        parsed(&file)
            .config()
            .expect_err("it should be refused")
            .to_string()
    };
    let said = parsed(&build::Gguf::model("gemma3", false, true))
        .config()
        .unwrap_err();
    assert!(
        said.to_string()
            .ends_with("models of architecture gemma3 are not supported")
    );
    let said = parsed(&build::Gguf::empty()).config().unwrap_err();
    assert!(said.to_string().contains("general.architecture"));
    let number =
        |key: &'static str, number| with(&|file| file.number(&format!("llama.{key}"), number));
    assert!(number("expert_count", 8).contains("experts"));
    assert!(number("attention.sliding_window", 64).contains("sliding window of 64"));
    assert!(number("rope.dimension_count", 4).contains("rotating 4"));
    assert!(number("attention.key_length", 16).contains("differ in size"));
    assert!(number("vocab_size", 41).contains("a vocabulary of 41"));
    let said = with(&|file| file.text("llama.rope.scaling.type", "yarn"));
    assert!(said.contains("yarn is not supported"), "{said}");
    let said = with(&|file| file.text("llama.vocab_size", "40"));
    assert!(said.contains("llama.vocab_size is not a number"), "{said}");
}
