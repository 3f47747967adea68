//! The document is whole and speaks of the types we serialise.

use std::collections::BTreeSet;

use serde_json::Value;

use super::document;
use crate::response::*;
use crate::routing::Routing;

#[test]
fn every_path_is_described() {
    let document = document("1.2.3", &["kv"]);
    let paths: Vec<(&str, Vec<&str>)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(path, methods)| {
            (
                path.as_str(),
                methods
                    .as_object()
                    .unwrap()
                    .keys()
                    .map(String::as_str)
                    .collect(),
            )
        })
        .collect();
    let mut lines: Vec<String> = paths
        .iter()
        .map(|(path, methods)| format!("{path} {}", methods.join(" ")))
        .collect();
    lines.sort();
    expect_test::expect![[r#"
        /decisions get
        /detokenize post
        /health get
        /live get
        /metrics get
        /openapi.json get
        /ready get
        /reset_prefix_cache post
        /router get put
        /tokenize post
        /v1/chat/completions post
        /v1/completions post
        /v1/embeddings post
        /v1/messages post
        /v1/messages/count_tokens post
        /v1/models get
        /v1/models/{model} get
        /v1/rerank post
        /v1/responses post
        /workers get post put
        /workers/{id} delete"#]]
    .assert_eq(&lines.join("\n"));
    assert_eq!(document["info"]["version"], "1.2.3");
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_used() {
    let document = document("0", &["kv"]);
    let mut used = BTreeSet::new();
    references(&document, &mut used);
    let defined: BTreeSet<String> = document["components"]["schemas"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    let missing: Vec<_> = used.difference(&defined).collect();
    assert!(missing.is_empty(), "undefined: {missing:?}");
    // A stream's event is named in prose, because OpenAPI has no word for it.
    let unused: Vec<_> = defined.difference(&used).collect();
    assert_eq!(unused, ["ChatCompletionChunk"]);
}

#[test]
fn what_we_serialise_is_what_the_schemas_list() {
    let usage = Usage::new(1, 2, 3).with_speculation(5, 4);
    listed("Usage", &serde_json::to_value(usage).unwrap());
    let model = Model {
        id: "m".to_owned(),
        object: ObjectKind::Model,
        created: 1,
        owned_by: "o".to_owned(),
        max_model_len: Some(2),
        parent: Some("p".to_owned()),
        simulated: true,
    };
    listed("Model", &serde_json::to_value(model).unwrap());
    listed(
        "Error",
        &serde_json::to_value(ErrorBody::new("k", "m")).unwrap(),
    );
    let chat = ChatCompletion {
        id: "i".to_owned(),
        object: ObjectKind::ChatCompletion,
        created: 1,
        model: "m".to_owned(),
        choices: Vec::new(),
        usage,
        nvext: Some(Value::Null),
    };
    let routing = Routing {
        mode: "kv".to_owned(),
        reason: "r".to_owned(),
        blocks: 1,
        queued_ms: 0.0,
        predicted_ttft_ms: 1.0,
        candidates: Vec::new(),
    };
    listed("Routing", &serde_json::to_value(routing).unwrap());
    listed("ChatCompletion", &serde_json::to_value(chat).unwrap());
}

#[track_caller]
fn listed(schema: &str, value: &Value) {
    let document = document("0", &["kv"]);
    let properties = document["components"]["schemas"][schema]["properties"]
        .as_object()
        .unwrap();
    let described: BTreeSet<&String> = properties.keys().collect();
    let written: BTreeSet<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(written, described, "{schema}");
}

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            if let Some(Value::String(target)) = object.get("$ref") {
                let name = target.strip_prefix("#/components/schemas/").unwrap();
                found.insert(name.to_owned());
            }
            object.values().for_each(|value| references(value, found));
        }
        Value::Array(array) => array.iter().for_each(|value| references(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
