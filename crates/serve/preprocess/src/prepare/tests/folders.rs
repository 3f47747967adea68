//! Models in folders: what is read of each file, and which file is to blame.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use super::*;

const TEMPLATE: &str = "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}<|eot_id|>{% endfor %}[assistant]";

fn folder(files: &[(&str, Value)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("tokenizer.json"),
        fixture::llama().to_string(),
    )
    .unwrap();
    for (name, content) in files {
        let text = content
            .as_str()
            .map_or_else(|| content.to_string(), str::to_owned);
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn a_model_is_loaded_from_its_folder() {
    let folder = folder(&[
        (
            "tokenizer_config.json",
            json!({
                "bos_token": "<|begin_of_text|>",
                "add_bos_token": true,
                "eos_token": { "content": "<|eot_id|>", "lstrip": false },
                "chat_template": [
                    { "name": "tool_use", "template": "{{ raise_exception('not this') }}" },
                    { "name": "default", "template": TEMPLATE },
                ],
            }),
        ),
        (
            "generation_config.json",
            json!({ "eos_token_id": [272, 271] }),
        ),
        (
            "config.json",
            json!({ "eos_token_id": 5, "max_position_embeddings": 64 }),
        ),
    ]);
    let model = Preprocessor::from_dir(folder.path(), PreprocessConfig::default()).unwrap();
    assert_eq!(model.max_context_tokens(), 64);
    assert_eq!(**model.tokenizer().eos_tokens(), [271, 272]);
    let prepared = model.chat(&chat(json!({}))).unwrap();
    assert_eq!(prepared.prompt.first(), Some(&fixture::BEGIN));
    assert_eq!(
        model.tokenizer().decode(&prepared.prompt),
        "[user]hello[assistant]"
    );
    assert_eq!(
        prepared.limits.max_tokens as usize,
        64 - prepared.prompt.len()
    );
    let plain = model
        .completion(&completion(json!({ "prompt": "a" })))
        .unwrap();
    assert_eq!(plain[0].prompt.len(), 2);
    assert_eq!(plain[0].prompt[0], fixture::BEGIN);
    let unknown = model
        .completion(&completion(json!({ "prompt": [274] })))
        .unwrap_err();
    assert!(matches!(
        unknown,
        PrepareError::UnknownToken {
            id: 274,
            vocabulary: 274,
            ..
        }
    ));
}

#[test]
fn the_template_file_wins_and_bos_can_be_declined() {
    let folder = folder(&[
        (
            "tokenizer_config.json",
            json!({
                "bos_token": "<|begin_of_text|>", "eos_token": null, "add_bos_token": false,
                "chat_template": "{{ raise_exception('not this') }}",
            }),
        ),
        ("chat_template.jinja", json!(TEMPLATE)),
        ("config.json", json!({ "eos_token_id": 271 })),
    ]);
    let model = Preprocessor::from_dir(folder.path(), PreprocessConfig::default()).unwrap();
    assert_eq!(model.max_context_tokens(), 131_072);
    assert_eq!(**model.tokenizer().eos_tokens(), [271]);
    assert_eq!(
        model.chat(&chat(json!({}))).unwrap().prompt[0],
        fixture::BEGIN,
        "by the template"
    );
    let plain = model
        .completion(&completion(json!({ "prompt": "a" })))
        .unwrap();
    assert_eq!(plain[0].prompt.len(), 1);
}

#[test]
fn a_text_begins_as_the_tokenizer_s_own_file_says() {
    let template = json!({ "type": "TemplateProcessing", "single": [
        { "SpecialToken": { "id": "<|begin_of_text|>", "type_id": 0 } },
        { "Sequence": { "id": "A", "type_id": 0 } },
    ], "pair": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "B", "type_id": 1 } }],
       "special_tokens": { "<|begin_of_text|>": {
           "id": "<|begin_of_text|>", "ids": [fixture::BEGIN], "tokens": ["<|begin_of_text|>"],
       } } });
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true,
    });
    for (processor, first) in [
        (json!(null), false),
        (bytes.clone(), false),
        (template.clone(), true),
        (
            json!({ "type": "Sequence", "processors": [bytes, template] }),
            true,
        ),
    ] {
        let mut tokenizer = fixture::llama();
        tokenizer["post_processor"] = processor.clone();
        let folder = folder(&[
            ("tokenizer.json", tokenizer),
            (
                "tokenizer_config.json",
                json!({ "bos_token": "<|begin_of_text|>", "chat_template": TEMPLATE }),
            ),
        ]);
        let model = Preprocessor::from_dir(folder.path(), PreprocessConfig::default()).unwrap();
        let plain = completion(json!({ "prompt": "a" }));
        let prompt = &model.completion(&plain).unwrap()[0].prompt;
        assert_eq!(prompt[0] == fixture::BEGIN, first, "{processor}");
    }
}

#[test]
fn a_folder_that_cannot_be_used_says_which_file_is_to_blame() {
    let config = json!({ "chat_template": TEMPLATE });
    let cases = [
        folder(&[("tokenizer.json", json!("{}"))]),
        folder(&[("tokenizer_config.json", json!("{"))]),
        folder(&[(
            "tokenizer_config.json",
            json!({ "chat_template": "{% for %}" }),
        )]),
        folder(&[("tokenizer_config.json", json!({}))]),
        folder(&[]),
        folder(&[
            ("tokenizer_config.json", config.clone()),
            ("config.json", json!("[1")),
        ]),
        folder(&[("tokenizer_config.json", json!({ "chat_template": [] }))]),
    ];
    let mut lines: Vec<String> = cases
        .iter()
        .map(|folder| {
            let loaded = Preprocessor::from_dir(folder.path(), PreprocessConfig::default());
            loaded
                .unwrap_err()
                .to_string()
                .replace(folder.path().to_str().unwrap(), "DIR")
        })
        .collect();
    let nowhere = Preprocessor::from_dir(Path::new("nowhere"), PreprocessConfig::default());
    lines.push(nowhere.unwrap_err().to_string());
    expect![[r#"
        DIR/tokenizer.json has no usable tokenizer: Model missing. at line 1 column 2
        DIR/tokenizer_config.json is not valid JSON: EOF while parsing an object at line 1 column 1
        the chat template in DIR/tokenizer_config.json does not compile: syntax error: unexpected end of block, expected in
        no chat template in DIR: neither tokenizer_config.json nor chat_template.jinja has one
        no chat template in DIR: neither tokenizer_config.json nor chat_template.jinja has one
        DIR/config.json is not valid JSON: EOF while parsing a list at line 1 column 2
        no chat template in DIR: neither tokenizer_config.json nor chat_template.jinja has one
        cannot read nowhere/tokenizer.json"#]].assert_eq(&lines.join("\n"));
}
