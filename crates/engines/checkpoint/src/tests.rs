//! What both kinds of files have in common: names, shapes, bytes.

pub(crate) mod build;
mod hostile;

use std::fs;

use super::*;

fn open_gguf(file: &build::Gguf) -> Result<Checkpoint, LoadError> {
    Checkpoint::from_gguf(Gguf::parse("m.gguf", file.bytes())?)
}

fn refused(opened: Result<Checkpoint, LoadError>) -> String {
    opened.expect_err("it should be refused").to_string()
}

#[test]
fn a_model_is_the_same_from_a_folder_and_from_gguf() {
    for (kind, class, biases) in [
        ("llama", "LlamaForCausalLM", false),
        ("qwen2", "Qwen2ForCausalLM", true),
    ] {
        let tensors = build::tensors(biases, false);
        let folder = tempfile::tempdir().unwrap();
        build::write_folder(folder.path(), &build::config(class, kind), &tensors);
        let folder = Checkpoint::open(folder.path()).unwrap();
        let path = tempfile::tempdir().unwrap();
        let path = path.path().join("m.gguf");
        fs::write(&path, build::Gguf::model(kind, biases, false).bytes()).unwrap();
        let gguf = Checkpoint::open(&path).unwrap();
        assert_eq!(folder.stored_bytes(), gguf.stored_bytes());
        let (mut one, mut other) = (vec![7], Vec::new());
        for tensor in &tensors {
            let info = folder.read(&tensor.name, &mut one).unwrap();
            assert_eq!(gguf.read(&tensor.name, &mut other).unwrap(), info);
            assert_eq!(gguf.tensor(&tensor.name), Some(&info));
            assert!(
                one == tensor.bytes && other == tensor.bytes,
                "{}",
                tensor.name
            );
        }
        assert_eq!(folder.config().qkv_bias, biases);
        let same = ModelConfig {
            name: folder.config().name.clone(),
            rope_pairs: folder.config().rope_pairs,
            ..gguf.config().clone()
        };
        assert_eq!(&same, folder.config());
        let error = gguf.read("model.other.weight", &mut one).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("there is no tensor model.other.weight")
        );
    }
}

#[test]
fn every_tensor_must_be_there_in_its_shape() {
    let whole = build::Gguf::model("qwen2", true, false);
    open_gguf(&whole).unwrap();
    for index in 0..whole.tensors.len() {
        let name = whole.tensors[index].0.name.clone();
        let mut without = whole.clone();
        without.tensors.remove(index);
        match name.as_str() {
            // Then the embeddings are used for it.
            "output.weight" => assert!(open_gguf(&without).unwrap().config().tied_embeddings),
            "token_embd.weight" => assert!(refused(open_gguf(&without)).contains(&name)),
            _ => assert!(
                refused(open_gguf(&without)).contains("is missing"),
                "{name}"
            ),
        }
        let mut other = whole.clone();
        other.tensors[index].0.shape = vec![8, other.tensors[index].0.bytes.len() / 32];
        let said = refused(open_gguf(&other));
        assert!(
            said.contains("should be") && said.contains("it is 8 x"),
            "{said}"
        );
    }
}

#[test]
fn a_tensor_too_many_is_refused_by_name() {
    for name in [
        "blk.0.attn_q_norm.weight",
        "blk.2.attn_q.weight",
        "blk.00.attn_q.weight",
    ] {
        let mut file = build::Gguf::model("llama", false, false);
        let mut extra = file.tensors[1].clone();
        extra.0.name = name.to_owned();
        file.tensors.push(extra);
        let said = refused(open_gguf(&file));
        assert!(said.ends_with("is not part of such a model"), "{said}");
    }
    // Biases of Llama too: its layers have none.
    assert!(refused(open_gguf(&build::Gguf::model("llama", true, true))).contains("bias"));
}

#[test]
fn an_output_layer_beside_tied_embeddings_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = build::config("LlamaForCausalLM", "llama");
    config["tie_word_embeddings"] = true.into();
    let mut tensors = build::tensors(false, false);
    let mut left_over = tensors[1].clone();
    left_over.name = "model.layers.0.self_attn.rotary_emb.inv_freq".to_owned();
    tensors.push(left_over);
    build::write_folder(folder.path(), &config, &tensors);
    let opened = Checkpoint::open(folder.path()).unwrap();
    assert_eq!(opened.tensor("lm_head.weight"), None);
    let bytes = build::tensors(false, true)
        .iter()
        .map(|tensor| tensor.bytes.len())
        .sum::<usize>();
    assert_eq!(opened.stored_bytes(), bytes as u64);
}

#[test]
fn what_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let said = refused(Checkpoint::open(folder.path()));
    assert!(said.contains("config.json: cannot be opened"), "{said}");
    let said = refused(Checkpoint::open(&folder.path().join("no.gguf")));
    assert!(said.contains("no.gguf: cannot be opened"), "{said}");
}
