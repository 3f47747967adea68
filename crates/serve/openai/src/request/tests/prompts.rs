//! The messages of a chat and the prompts of a completion.

use expect_test::expect;
use serde_json::json;

use super::*;

#[test]
fn contents_are_joined() {
    let request = chat(json!({ "messages": [
        { "role": "system", "content": [{ "type": "text", "text": "a" }, { "type": "input_text", "text": "b" }] },
        { "role": "assistant", "content": null, "tool_calls": [] },
        { "role": "assistant" },
        { "role": "tool", "content": "", "name": "n", "tool_call_id": "t" },
    ] }))
    .unwrap();
    let contents: Vec<(Role, &str)> = request
        .messages
        .iter()
        .map(|m| (m.role, m.content.as_str()))
        .collect();
    assert_eq!(
        contents,
        [
            (Role::System, "a\nb"),
            (Role::Assistant, ""),
            (Role::Assistant, ""),
            (Role::Tool, "")
        ]
    );
    assert_eq!(request.messages[3].name.as_deref(), Some("n"));
}

#[test]
fn prompts_have_four_forms() {
    let text = |text: &str| Prompt::Text(text.to_owned());
    for (prompt, expected) in [
        (json!("a"), vec![text("a")]),
        (json!(["a", "b"]), vec![text("a"), text("b")]),
        (json!([1, 2]), vec![Prompt::Tokens(vec![1, 2])]),
        (
            json!([[1], [2, 3]]),
            vec![Prompt::Tokens(vec![1]), Prompt::Tokens(vec![2, 3])],
        ),
    ] {
        assert_eq!(
            completion(json!({ "prompt": prompt })).unwrap().prompts,
            expected
        );
    }
}

#[test]
fn bad_completions_are_refused_by_name() {
    let lines: Vec<String> = [
        json!({ "prompt": null }),
        json!({ "prompt": "" }),
        json!({ "prompt": [] }),
        json!({ "prompt": ["a", ""] }),
        json!({ "prompt": [[1], []] }),
        json!({ "prompt": [1, "a"] }),
        json!({ "prompt": ["a", 1] }),
        json!({ "prompt": [1, -1] }),
        json!({ "prompt": [-1] }),
        json!({ "prompt": [4_294_967_296_u64] }),
        json!({ "prompt": { "a": 1 } }),
        json!({ "prompt": vec!["x"; 129] }),
        json!({ "suffix": "end" }),
        json!({ "best_of": 3 }),
        json!({ "logprobs": 6 }),
        json!({ "logprobs": true }),
        json!({ "echo": 1 }),
    ]
    .into_iter()
    .map(|case| describe(&completion(case).unwrap_err()))
    .collect();
    expect![[r#"
        Invalid prompt missing_required_parameter: `prompt` is required
        Invalid prompt invalid_value: `prompt` must not be empty
        Invalid prompt invalid_value: `prompt` must not be empty
        Invalid prompt[1] invalid_value: `prompt[1]` must not be empty
        Invalid prompt[1] invalid_value: `prompt[1]` must not be empty
        Invalid prompt[1] invalid_type: invalid value for `prompt[1]`: invalid type: string "a", expected a token id
        Invalid prompt[1] invalid_type: invalid value for `prompt[1]`: invalid type: integer `1`, expected a string
        Invalid prompt[1] invalid_type: invalid value for `prompt[1]`: invalid value: integer `-1`, expected a token id
        Invalid prompt[0] invalid_type: invalid value for `prompt[0]`: invalid type: integer `-1`, expected a string, a token id or a list of token ids
        Invalid prompt[0] invalid_type: invalid value for `prompt[0]`: invalid value: integer `4294967296`, expected a token id
        Invalid prompt invalid_type: invalid value for `prompt`: invalid type: map, expected a string, a list of strings, or token ids
        Invalid prompt invalid_value: invalid value for `prompt`: more than 128 prompts
        Unsupported suffix unsupported_value: `suffix`: text after the answer is not supported
        Unsupported best_of unsupported_value: `best_of`: more than one answer to a prompt is not supported
        Invalid logprobs invalid_value: invalid value for `logprobs`: 6 is not between 0 and 5
        Invalid logprobs invalid_type: invalid value for `logprobs`: invalid type: boolean `true`, expected an integer
        Invalid echo invalid_type: invalid value for `echo`: invalid type: integer `1`, expected a boolean"#]].assert_eq(&lines.join("\n"));
}
