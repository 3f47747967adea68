//! Requests as clients send them, and as they should not.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

fn chat(extra: Value) -> Result<ChatRequest, RequestError> {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    merge(&mut body, extra);
    ChatRequest::parse(&serde_json::to_vec(&body).unwrap(), UnknownFields::Refuse)
}

fn lenient(extra: Value) -> ChatRequest {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "hi" }] });
    merge(&mut body, extra);
    ChatRequest::parse(&serde_json::to_vec(&body).unwrap(), UnknownFields::Ignore).unwrap()
}

fn completion(extra: Value) -> Result<CompletionRequest, RequestError> {
    let mut body = json!({ "model": "m", "prompt": "hi" });
    merge(&mut body, extra);
    CompletionRequest::parse(&serde_json::to_vec(&body).unwrap(), UnknownFields::Refuse)
}

fn merge(body: &mut Value, extra: Value) {
    let Value::Object(extra) = extra else {
        panic!("an object")
    };
    for (name, value) in extra {
        body[name] = value;
    }
}

fn describe(error: &RequestError) -> String {
    format!(
        "{:?} {} {}: {}",
        error.kind,
        error.param.as_deref().unwrap_or("-"),
        error.code.unwrap_or("-"),
        error.message
    )
}

#[track_caller]
fn refused(cases: &[Value], expected: &Expect) {
    let lines: Vec<String> = cases
        .iter()
        .map(|case| match chat(case.clone()) {
            Ok(_) => format!("accepted {case}"),
            Err(error) => describe(&error),
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn the_smallest_requests_have_defaults() {
    let request = chat(json!({})).unwrap();
    assert_eq!(request.model, "m");
    assert_eq!(request.messages, [Message::new(Role::User, "hi")]);
    assert_eq!(request.options, GenerationOptions::default());
    let request = completion(json!({})).unwrap();
    assert_eq!(request.prompts, [Prompt::Text("hi".to_owned())]);
    assert_eq!(request.options, GenerationOptions::default());
    assert!(!request.echo);
}

#[test]
fn every_option_arrives() {
    let options = json!({
        "max_tokens": 9, "max_completion_tokens": 7, "min_tokens": 2, "ignore_eos": true,
        "temperature": 0.5, "top_p": 0.25, "top_k": 40, "seed": -3, "n": 3,
        "logit_bias": { "77": 1.5, "5": -100 }, "stop_token_ids": [9, 8],
        "presence_penalty": -1.5, "frequency_penalty": 2, "min_p": 0.125,
        "repetition_penalty": 1.5, "stop": ["a", "b"], "stream": true,
        "stream_options": { "include_usage": true, "continuous_usage_stats": true },
        "user": "u", "conversation_id": "c",
        "nvext": {
            "extra_fields": ["worker_id", "timing", "routing", "other", 5],
            "cache_salt": "s",
        },
    });
    let expected = GenerationOptions {
        max_tokens: Some(7),
        min_tokens: 2,
        ignore_eos: true,
        temperature: Some(0.5),
        top_p: Some(0.25),
        top_k: Some(40),
        seed: Some(-3),
        presence_penalty: -1.5,
        frequency_penalty: 2.0,
        min_p: 0.125,
        repetition_penalty: Some(1.5),
        stop: vec!["a".to_owned(), "b".to_owned()],
        stream: true,
        include_usage: true,
        continuous_usage_stats: true,
        logprobs: None,
        user: Some("u".to_owned()),
        conversation_id: Some("c".to_owned()),
        extensions: Extensions {
            worker_id: true,
            timing: true,
            routing: true,
            cache_salt: Some("s".to_owned()),
        },
        n: 3,
        logit_bias: vec![(5, -100.0), (77, 1.5)],
        stop_token_ids: vec![9, 8],
        constraint: None,
    };
    assert_eq!(chat(options.clone()).unwrap().options, expected);
    assert_eq!(completion(options).unwrap().options, expected);
}

#[test]
fn a_salt_counts_at_either_place_and_the_top_level_first() {
    let salt = |more: Value| {
        let chat = chat(more.clone()).map(|request| request.options.extensions.cache_salt);
        let completion = completion(more).map(|request| request.options.extensions.cache_salt);
        assert_eq!(chat.is_ok(), completion.is_ok());
        assert_eq!(chat.as_ref().ok(), completion.as_ref().ok());
        chat
    };
    let nested = json!({ "cache_salt": "nested" });
    for (more, expected) in [
        (json!({ "cache_salt": "top" }), "top"),
        (json!({ "nvext": nested }), "nested"),
        (json!({ "cache_salt": "top", "nvext": nested }), "top"),
    ] {
        assert_eq!(
            salt(more.clone()).unwrap().as_deref(),
            Some(expected),
            "{more}"
        );
    }
    assert_eq!(salt(json!({ "cache_salt": null })).unwrap(), None);
    // Whoever asks to be kept apart and cannot be must know.
    for wrong in [json!(""), json!(5), json!(["s"])] {
        let error = salt(json!({ "cache_salt": wrong })).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("cache_salt"), "{wrong}");
    }
}

#[test]
fn null_is_absent() {
    let nulls: Value = [
        "max_tokens",
        "max_completion_tokens",
        "min_tokens",
        "ignore_eos",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "n",
        "presence_penalty",
        "frequency_penalty",
        "min_p",
        "repetition_penalty",
        "stop",
        "stream",
        "stream_options",
        "logprobs",
        "top_logprobs",
        "user",
        "conversation_id",
        "cache_salt",
        "nvext",
        "echo",
        "suffix",
        "best_of",
    ]
    .into_iter()
    .map(|name| (name.to_owned(), Value::Null))
    .collect::<serde_json::Map<_, _>>()
    .into();
    assert_eq!(
        chat(nulls.clone()).unwrap().options,
        GenerationOptions::default()
    );
    assert_eq!(
        completion(nulls).unwrap().options,
        GenerationOptions::default()
    );
}

#[test]
fn what_nobody_knows_is_refused_unless_the_operator_lets_it_pass() {
    refused(
        &[
            json!({ "prompt": 5 }),
            json!({ "unknown": { "deep": [1] } }),
            json!({ "stream_options": { "x": 1 } }),
            json!({ "nvext": { "annotations": ["a"] } }),
            json!({ "nvext": { "cache_salt": 5 } }),
            json!({ "messages": [{ "role": "user", "content": "hi", "x": 1 }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi", "x": 1 }] }] }),
        ],
        &expect![[r#"
            Unsupported prompt unknown_parameter: `prompt` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported unknown unknown_parameter: `unknown` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported stream_options.x unknown_parameter: `stream_options.x` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported nvext.annotations unknown_parameter: `nvext.annotations` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported nvext.cache_salt unknown_parameter: `nvext.cache_salt` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported messages[0].x unknown_parameter: `messages[0].x` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Unsupported messages[0].content[0].x unknown_parameter: `messages[0].content[0].x` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)"#]],
    );
    assert!(completion(json!({ "messages": 5 })).is_err());
    for passed in [
        json!({ "unknown": { "deep": [1] }, "stream_options": { "x": 1 } }),
        json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "hi", "x": 1 }], "x": 1 }] }),
    ] {
        assert_eq!(lenient(passed).messages[0].content, "hi");
    }
    assert!(chat(json!({ "unknown": null })).is_ok(), "asks for nothing");
}

#[test]
fn what_would_be_ignored_is_refused() {
    refused(
        &[
            json!({ "tools": [{ "type": "function" }] }),
            json!({ "tools": [{ "type": "web_search" }] }),
            json!({ "tools": [{ "type": "function", "function": { "name": "a b" } }] }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f", "more": 1 } }] }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f", "parameters": [] } }] }),
            json!({ "tools": [
                { "type": "function", "function": { "name": "f" } },
                { "type": "function", "function": { "name": "f" } },
            ] }),
            json!({ "tool_choice": "required" }),
            json!({ "tool_choice": "sometimes" }),
            json!({ "tool_choice": { "type": "function" } }),
            json!({ "tool_choice": { "type": "allowed_tools" } }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f" } }],
                "tool_choice": { "type": "function", "function": { "name": "g" } } }),
            json!({ "tools": [{ "type": "function", "function": { "name": "f" } }],
                "tool_choice": "required", "guided_regex": "a" }),
            json!({ "response_format": { "type": "xml" } }),
            json!({ "response_format": { "type": "json_schema" } }),
            json!({ "response_format": { "type": "json_schema", "json_schema": { "name": "n" } } }),
            json!({ "response_format": { "type": "json_schema", "json_schema":
                { "name": "n", "schema": 5 } } }),
            json!({ "response_format": { "type": "json_object" }, "guided_regex": "a" }),
            json!({ "response_format": { "type": "json_object" }, "ignore_eos": true }),
            json!({ "guided_choice": [] }),
            json!({ "guided_choice": ["a", ""] }),
            json!({ "guided_grammar": "" }),
            json!({ "guided_json": "{" }),
            json!({ "structured_outputs": { "regex": "a", "structural_tag": "b" } }),
        ],
        &expect![[r#"
            Invalid tools[0].function missing_required_parameter: `tools[0].function` is required
            Unsupported tools[0].type unsupported_value: `tools[0].type`: a tool of type `web_search` is not supported
            Invalid tools[0].function.name invalid_value: `tools[0].function.name` must be 1 to 128 letters, digits, underscores or dashes
            Unsupported tools[0].function.more unknown_parameter: `tools[0].function.more` is not known and would have no effect: leave it out (an operator can start the server with --unknown-fields ignore)
            Invalid tools[0].function.parameters invalid_value: invalid value for `tools[0].function.parameters`: must be a JSON schema, which is an object
            Invalid tools[1].function.name invalid_value: invalid value for `tools[1].function.name`: `f` is the name of another tool too
            Invalid tool_choice invalid_value: invalid value for `tool_choice`: needs `tools`
            Invalid tool_choice invalid_value: invalid value for `tool_choice`: `sometimes` is not one of none, auto, required
            Invalid tool_choice.function.name missing_required_parameter: `tool_choice.function.name` is required
            Unsupported tool_choice.type unsupported_value: `tool_choice.type`: a choice of type `allowed_tools` is not supported
            Invalid tool_choice invalid_value: invalid value for `tool_choice`: `g` is not the name of a tool
            Invalid tool_choice invalid_value: invalid value for `tool_choice`: cannot be combined with `guided_regex`: the answer is a call or the other
            Unsupported response_format.type unsupported_value: `response_format.type`: a format of type `xml` is not supported
            Invalid response_format.json_schema missing_required_parameter: `response_format.json_schema` is required
            Invalid response_format.json_schema.schema missing_required_parameter: `response_format.json_schema.schema` is required
            Invalid response_format.json_schema.schema invalid_value: `response_format.json_schema.schema` must be a JSON schema, which is an object
            Invalid guided_regex invalid_value: invalid value for `guided_regex`: cannot be combined with `response_format`
            Invalid ignore_eos invalid_value: invalid value for `ignore_eos`: cannot be combined with `response_format`, which decides where the answer ends
            Invalid guided_choice invalid_value: `guided_choice` must hold at least one text
            Invalid guided_choice invalid_value: `guided_choice` must not hold an empty text
            Invalid guided_grammar invalid_value: `guided_grammar` must not be empty
            Invalid guided_json invalid_type: invalid value for `guided_json`: EOF while parsing an object
            Unsupported structured_outputs.structural_tag unsupported_parameter: `structured_outputs.structural_tag` is not supported (tags: use `structured_outputs.grammar`): leave it out"#]],
    );
}

#[test]
fn other_values_that_make_no_sense_are_refused() {
    refused(
        &[
            json!({ "logit_bias": { "fifty": 100 } }),
            json!({ "logit_bias": { "50": 101 } }),
            json!({ "n": 0 }),
            json!({ "reasoning_effort": "much" }),
            json!({ "chat_template_kwargs": [] }),
            json!({ "functions": [{ "name": "f" }] }),
            json!({ "modalities": ["text", "audio"] }),
            json!({ "store": true }),
            json!({ "messages": [{ "role": "assistant", "tool_calls": [{}] }] }),
            json!({ "messages": [{ "role": "user", "content": "a", "tool_calls":
                [{ "function": { "name": "f" } }] }] }),
            json!({ "messages": [{ "role": "assistant", "tool_calls":
                [{ "function": { "name": "f", "arguments": "[1]" } }] }] }),
            json!({ "messages": [{ "role": "assistant", "tool_calls":
                [{ "function": { "name": "f", "arguments": "{" } }] }] }),
            json!({ "stream_options": { "include_obfuscation": true } }),
        ],
        &expect![[r#"
            Invalid logit_bias invalid_value: invalid value for `logit_bias`: `fifty` is not a token id
            Invalid logit_bias.50 invalid_value: invalid value for `logit_bias.50`: 101 is not between -100 and 100
            Invalid n invalid_value: invalid value for `n`: 0 is not between 1 and 128
            Invalid reasoning_effort invalid_value: invalid value for `reasoning_effort`: `much` is not one of none, minimal, low, medium, high, xhigh
            Invalid chat_template_kwargs invalid_value: invalid value for `chat_template_kwargs`: must be an object
            Unsupported functions unsupported_parameter: `functions` is not supported (the older form of tool calls: use `tools`): leave it out or send an empty one
            Unsupported modalities unsupported_parameter: `modalities` is not supported (output other than text): leave it out or send `["text"]`
            Unsupported store unsupported_parameter: `store` is not supported (storing answers): leave it out or send `false`
            Invalid messages[0].tool_calls[0].function missing_required_parameter: `messages[0].tool_calls[0].function` is required
            Invalid messages[0].tool_calls invalid_value: invalid value for `messages[0].tool_calls`: only an assistant's message has them
            Invalid messages[0].tool_calls[0].function.arguments invalid_value: invalid value for `messages[0].tool_calls[0].function.arguments`: must be the text of a JSON object
            Invalid messages[0].tool_calls[0].function.arguments invalid_value: invalid value for `messages[0].tool_calls[0].function.arguments`: must be the text of a JSON object: EOF while parsing an object at line 1 column 1
            Unsupported stream_options.include_obfuscation unsupported_parameter: `stream_options.include_obfuscation` is not supported (padding of events): leave it out or send `false`"#]],
    );
}

#[test]
fn tools_and_formats_arrive() {
    let request = chat(json!({
        "tools": [{ "type": "function", "function": {
            "name": "f", "description": "d", "strict": true, "parameters": { "type": "object" },
        } }],
        "tool_choice": { "type": "function", "function": { "name": "f" } },
        "parallel_tool_calls": false,
        "reasoning_effort": "high",
        "chat_template_kwargs": { "z": 1, "a": 2 },
        "messages": [
            { "role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [
                { "id": "c1", "type": "function",
                  "function": { "name": "f", "arguments": "{\"b\": 1, \"a\": 2}" } },
                { "function": { "name": "g", "arguments": "" } },
            ] },
            { "role": "tool", "tool_call_id": "c1", "content": "3" },
        ],
    }))
    .unwrap();
    let tool = Tool {
        name: "f".to_owned(),
        description: Some("d".to_owned()),
        parameters: Some(JsonText::parse(r#"{"type":"object"}"#).unwrap()),
    };
    assert_eq!(request.tools, [tool]);
    assert_eq!(request.tool_choice, ToolChoice::Named("f".to_owned()));
    assert!(!request.parallel_tool_calls);
    assert_eq!(request.reasoning_effort, Some(ReasoningEffort::High));
    assert_eq!(
        request.template_arguments.unwrap().as_str(),
        r#"{"z":1,"a":2}"#
    );
    let [assistant, tool] = &request.messages[..] else {
        panic!("two messages")
    };
    assert_eq!(assistant.reasoning.as_deref(), Some("hm"));
    let calls: Vec<(Option<&str>, &str, &str)> = assistant
        .tool_calls
        .iter()
        .map(|call| (call.id.as_deref(), &*call.name, call.arguments.as_str()))
        .collect();
    let expected = [(Some("c1"), "f", r#"{"b": 1, "a": 2}"#), (None, "g", "{}")];
    assert_eq!(calls, expected);
    assert_eq!(tool.tool_call_id.as_deref(), Some("c1"));
}

#[test]
fn constraints_have_many_names() {
    for (body, param, format) in [
        (
            json!({ "response_format": { "type": "json_object" } }),
            "response_format",
            OutputFormat::JsonObject,
        ),
        (
            json!({ "response_format": { "type": "json_schema", "json_schema":
                { "name": "n", "strict": true, "schema": { "type": "string" } } } }),
            "response_format.json_schema.schema",
            OutputFormat::JsonSchema(JsonText::parse(r#"{"type":"string"}"#).unwrap()),
        ),
        (
            json!({ "guided_json": "{\"a\": 1}" }),
            "guided_json",
            OutputFormat::JsonSchema(JsonText::parse(r#"{"a": 1}"#).unwrap()),
        ),
        (
            json!({ "guided_choice": ["a", "b"] }),
            "guided_choice",
            OutputFormat::Choice(vec!["a".to_owned(), "b".to_owned()]),
        ),
        (
            json!({ "structured_outputs": { "regex": "a+" } }),
            "structured_outputs.regex",
            OutputFormat::Regex("a+".to_owned()),
        ),
        (
            json!({ "structured_outputs": { "grammar": "start: \"a\"" } }),
            "structured_outputs.grammar",
            OutputFormat::Grammar("start: \"a\"".to_owned()),
        ),
    ] {
        let expected = OutputConstraint { format, param };
        assert_eq!(chat(body).unwrap().options.constraint, Some(expected));
    }
}

#[test]
fn what_asks_for_nothing_is_accepted() {
    let body = json!({
        "tools": [], "tool_choice": "auto", "functions": [], "function_call": "none",
        "parallel_tool_calls": true, "response_format": { "type": "text" }, "logit_bias": {},
        "modalities": ["text"], "store": false, "service_tier": "auto", "length_penalty": 1,
        "stop_token_ids": [], "skip_special_tokens": true, "metadata": { "a": "b" },
        "prompt_cache_key": "k", "prediction": { "type": "content" }, "audio": null,
        "stream_options": { "include_obfuscation": false },
        "messages": [
            { "role": "assistant", "content": "a", "tool_calls": [], "refusal": null },
            { "role": "user", "content": [
                { "type": "text", "text": "hi", "cache_control": { "type": "ephemeral" } }
            ] },
        ],
    });
    assert_eq!(chat(body).unwrap().messages.len(), 2);
}

#[test]
fn stream_options_need_a_stream() {
    let request = chat(json!({ "stream_options": { "include_usage": true } })).unwrap();
    assert!(!request.options.include_usage);
}

#[test]
fn top_k_has_two_ways_to_be_off() {
    for off in [-1, 0] {
        assert_eq!(chat(json!({ "top_k": off })).unwrap().options.top_k, None);
    }
}

#[test]
fn a_strange_nvext_can_be_let_pass() {
    for nvext in [
        json!(5),
        json!("x"),
        json!([1]),
        json!({}),
        json!({ "extra_fields": "worker_id", "cache_salt": 5 }),
        json!({ "cache_salt": "" }),
    ] {
        let request = lenient(json!({ "nvext": nvext }));
        assert_eq!(request.options.extensions, Extensions::default(), "{nvext}");
    }
}

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
fn logprobs_differ_by_endpoint() {
    let of_chat = |extra| chat(extra).unwrap().options.logprobs;
    assert_eq!(of_chat(json!({ "logprobs": true })), Some(0));
    assert_eq!(
        of_chat(json!({ "logprobs": true, "top_logprobs": 20 })),
        Some(20)
    );
    assert_eq!(
        of_chat(json!({ "logprobs": false, "top_logprobs": 0 })),
        None
    );
    let of_completion = |extra| completion(extra).unwrap().options.logprobs;
    assert_eq!(of_completion(json!({ "logprobs": 0 })), Some(0));
    assert_eq!(of_completion(json!({ "logprobs": 5 })), Some(5));
}

#[test]
fn values_out_of_range_are_refused_by_name() {
    refused(
        &[
            json!({ "max_tokens": 0 }),
            json!({ "max_tokens": -5 }),
            json!({ "max_completion_tokens": 4_294_967_296_i64 }),
            json!({ "min_tokens": -1 }),
            json!({ "min_tokens": 3, "max_tokens": 2 }),
            json!({ "temperature": -0.1 }),
            json!({ "temperature": 2.5 }),
            json!({ "top_p": -0.01 }),
            json!({ "top_p": 1.01 }),
            json!({ "top_k": -2 }),
            json!({ "n": 0 }),
            json!({ "n": 2 }),
            json!({ "presence_penalty": 3 }),
            json!({ "frequency_penalty": -3 }),
            json!({ "stop": "" }),
            json!({ "stop": ["a", ""] }),
            json!({ "stop": vec!["x"; 17] }),
            json!({ "stop": "x".repeat(1025) }),
            json!({ "stop": ["x", "x".repeat(1025)] }),
            json!({ "messages": vec![json!({}); 65_537] }),
            json!({ "logprobs": true, "top_logprobs": 21 }),
            json!({ "top_logprobs": 2 }),
            json!({ "model": "" }),
            json!({ "model": null }),
            json!({ "messages": [] }),
            json!({ "messages": null }),
        ],
        &expect![[r#"
            Invalid max_tokens invalid_value: invalid value for `max_tokens`: 0 is not between 1 and 4294967295
            Invalid max_tokens invalid_value: invalid value for `max_tokens`: -5 is not between 1 and 4294967295
            Invalid max_completion_tokens invalid_value: invalid value for `max_completion_tokens`: 4294967296 is not between 1 and 4294967295
            Invalid min_tokens invalid_value: invalid value for `min_tokens`: -1 is not between 0 and 4294967295
            Invalid min_tokens invalid_value: invalid value for `min_tokens`: 3 is not between 0 and 2
            Invalid temperature invalid_value: invalid value for `temperature`: -0.1 is not between 0 and 2
            Invalid temperature invalid_value: invalid value for `temperature`: 2.5 is not between 0 and 2
            Invalid top_p invalid_value: invalid value for `top_p`: -0.01 is not between 0 and 1
            Invalid top_p invalid_value: invalid value for `top_p`: 1.01 is not between 0 and 1
            Invalid top_k invalid_value: invalid value for `top_k`: -2 is not between -1 and 4294967295
            Invalid n invalid_value: invalid value for `n`: 0 is not between 1 and 128
            accepted {"n":2}
            Invalid presence_penalty invalid_value: invalid value for `presence_penalty`: 3 is not between -2 and 2
            Invalid frequency_penalty invalid_value: invalid value for `frequency_penalty`: -3 is not between -2 and 2
            Invalid stop invalid_value: `stop` must not be empty
            Invalid stop[1] invalid_value: `stop[1]` must not be empty
            Invalid stop invalid_value: invalid value for `stop`: more than 16 stop strings
            Invalid stop invalid_value: invalid value for `stop`: 1025 bytes are more than 1024
            Invalid stop[1] invalid_value: invalid value for `stop[1]`: 1025 bytes are more than 1024
            Invalid messages invalid_value: invalid value for `messages`: more than 65536 messages
            Invalid top_logprobs invalid_value: invalid value for `top_logprobs`: 21 is not between 0 and 20
            Invalid top_logprobs invalid_value: invalid value for `top_logprobs`: needs `logprobs` to be true
            Invalid model invalid_value: `model` must not be empty
            Invalid model missing_required_parameter: `model` is required
            Invalid messages invalid_value: `messages` must hold at least one message
            Invalid messages missing_required_parameter: `messages` is required"#]],
    );
}

#[test]
fn values_of_the_wrong_type_are_refused_by_path() {
    refused(
        &[
            json!({ "model": 5 }),
            json!({ "messages": "é".repeat(500) }),
            json!({ "messages": "hi" }),
            json!({ "messages": ["hi"] }),
            json!({ "messages": [{ "role": "user", "content": "a" }, { "role": "user", "content": 5 }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": 5 }] }] }),
            json!({ "messages": [{ "role": "user", "content": ["a"] }] }),
            json!({ "messages": [{ "role": "user", "content": [] }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "text": "a" }] }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text" }] }] }),
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": "a" }, { "type": "image_url", "image_url": { "url": "x" } }] }] }),
            json!({ "messages": [{ "role": "user", "content": null }] }),
            json!({ "messages": [{ "content": "a" }] }),
            json!({ "messages": [{ "role": "robot", "content": "a" }] }),
            json!({ "max_tokens": "5" }),
            json!({ "max_tokens": 1.5 }),
            json!({ "max_tokens": 18_446_744_073_709_551_615_u64 }),
            json!({ "temperature": "hot" }),
            json!({ "stream": "yes" }),
            json!({ "stream_options": 5 }),
            json!({ "stream_options": { "include_usage": 1 } , "stream": true }),
            json!({ "stop": 5 }),
            json!({ "stop": ["a", 5] }),
            json!({ "seed": 0.5 }),
            json!({ "logprobs": 2 }),
        ],
        &expect![[r#"
            Invalid model invalid_type: invalid value for `model`: invalid type: integer `5`, expected a string
            Invalid messages invalid_type: invalid value for `messages`: invalid type: string "éééééééééééééééééééééééééééééééééééééééééééééééééééééééééé…, expected a list
            Invalid messages invalid_type: invalid value for `messages`: invalid type: string "hi", expected a list
            Invalid messages[0] invalid_type: invalid value for `messages[0]`: invalid type: string "hi", expected a message object
            Invalid messages[1].content invalid_type: invalid value for `messages[1].content`: invalid type: integer `5`, expected a string or a list of text parts
            Invalid messages[0].content[0].text invalid_type: invalid value for `messages[0].content[0].text`: invalid type: integer `5`, expected a string
            Invalid messages[0].content[0] invalid_type: invalid value for `messages[0].content[0]`: invalid type: string "a", expected a content part object
            Invalid messages[0].content invalid_value: `messages[0].content` must hold at least one part
            Invalid messages[0].content[0].type missing_required_parameter: `messages[0].content[0].type` is required
            Invalid messages[0].content[0].text missing_required_parameter: `messages[0].content[0].text` is required
            Unsupported messages[0].content[1].type unsupported_value: `messages[0].content[1].type`: a part of type `image_url` is not supported
            Invalid messages[0].content missing_required_parameter: `messages[0].content` is required
            Invalid messages[0].role missing_required_parameter: `messages[0].role` is required
            Invalid messages[0].role invalid_value: invalid value for `messages[0].role`: `robot` is not one of system, developer, user, assistant, tool, function
            Invalid max_tokens invalid_type: invalid value for `max_tokens`: invalid type: string "5", expected an integer
            Invalid max_tokens invalid_type: invalid value for `max_tokens`: invalid type: floating point `1.5`, expected an integer
            Invalid max_tokens invalid_type: invalid value for `max_tokens`: invalid value: integer `18446744073709551615`, expected an integer
            Invalid temperature invalid_type: invalid value for `temperature`: invalid type: string "hot", expected a number
            Invalid stream invalid_type: invalid value for `stream`: invalid type: string "yes", expected a boolean
            Invalid stream_options invalid_type: invalid value for `stream_options`: invalid type: integer `5`, expected an object
            Invalid stream_options.include_usage invalid_type: invalid value for `stream_options.include_usage`: invalid type: integer `1`, expected a boolean
            Invalid stop invalid_type: invalid value for `stop`: invalid type: integer `5`, expected a string or a list of strings
            Invalid stop[1] invalid_type: invalid value for `stop[1]`: invalid type: integer `5`, expected a string
            Invalid seed invalid_type: invalid value for `seed`: invalid type: floating point `0.5`, expected an integer
            Invalid logprobs invalid_type: invalid value for `logprobs`: invalid type: integer `2`, expected a boolean"#]],
    );
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

#[test]
fn what_is_not_a_json_object_is_refused() {
    let lines: Vec<String> = [
        &b""[..],
        b"{",
        b"{\"model\": \"m\",}",
        b"{\"model\": \"m\"} x",
        b"hello",
        b"[1, 2]",
        b"null",
        b"5",
        b"{\"model\": \"\xff\"}",
        b"{\"temperature\": 1e999}",
        b"{\"model\": \"m\", \"model\": \"m\"}",
    ]
    .into_iter()
    .map(|body| describe(&ChatRequest::parse(body, UnknownFields::Refuse).unwrap_err()))
    .collect();
    expect![[r#"
        Malformed - -: the body is not valid JSON: EOF while parsing a value at line 1 column 0
        Malformed - -: the body is not valid JSON: EOF while parsing an object at line 1 column 1
        Malformed - -: the body is not valid JSON: trailing comma at line 1 column 15
        Malformed - -: the body is not valid JSON: trailing characters at line 1 column 16
        Malformed - -: the body is not valid JSON: expected value at line 1 column 1
        Invalid - invalid_type: the body must be a JSON object
        Invalid - invalid_type: the body does not fit: invalid type: null, expected a JSON object
        Invalid - invalid_type: the body does not fit: invalid type: integer `5`, expected a JSON object
        Malformed - -: the body is not valid JSON: invalid unicode code point at line 1 column 12
        Invalid temperature invalid_type: invalid value for `temperature`: number out of range
        Invalid - invalid_type: the body does not fit: duplicate field `model`"#]].assert_eq(&lines.join("\n"));
}

#[test]
fn top_p_of_nothing_is_greedy() {
    for (extra, temperature, top_p) in [
        (json!({ "top_p": 0 }), Some(0.0), None),
        (json!({ "top_p": 0.0, "temperature": 1.5 }), Some(0.0), None),
        (json!({ "top_p": 1e-60 }), Some(0.0), None),
        (
            json!({ "top_p": 0.5, "temperature": 1.5 }),
            Some(1.5),
            Some(0.5),
        ),
    ] {
        let options = chat(extra).unwrap().options;
        assert_eq!((options.temperature, options.top_p), (temperature, top_p));
    }
}

/// What a list may hold ends with the list's limit, and what is not known is not kept: a body
/// must not become many times its size in memory. Here the values are of the right type, so
/// that only their number can be wrong.
#[test]
fn long_lists_end_where_they_are_read() {
    let many = |element: &str| format!("[{}]", vec![element; 300_000].join(","));
    for (body, field) in [
        (
            format!(r#"{{"model":"m","messages":{}}}"#, many("{}")),
            "messages",
        ),
        (
            format!(r#"{{"model":"m","stop":{}}}"#, many("\"a\"")),
            "stop",
        ),
    ] {
        let error = ChatRequest::parse(body.as_bytes(), UnknownFields::Refuse).unwrap_err();
        assert_eq!(error.param.as_deref(), Some(field));
        assert_eq!(error.code, Some("invalid_value"), "{error}");
    }
    let body = format!(r#"{{"model":"m","prompt":{}}}"#, many("[1]"));
    let error = CompletionRequest::parse(body.as_bytes(), UnknownFields::Refuse).unwrap_err();
    assert_eq!(error.param.as_deref(), Some("prompt"));
    // Parts are many only if they say nothing, and are joined as they come.
    let parts = many(r#"{"type":"text","text":""}"#);
    let body = format!(r#"{{"model":"m","messages":[{{"role":"user","content":{parts}}}]}}"#);
    let request = ChatRequest::parse(body.as_bytes(), UnknownFields::Refuse).unwrap();
    assert_eq!(request.messages[0].content.len(), 299_999);
}

#[test]
fn extensions_are_taken_where_they_are_as_expected() {
    for (nvext, asks, salt) in [
        (
            json!({ "extra_fields": ["timing", 1, null, ["worker_id"], {}] }),
            (false, true),
            None,
        ),
        (json!({ "extra_fields": "timing" }), (false, false), None),
        (
            json!({ "extra_fields": { "timing": true }, "cache_salt": "s" }),
            (false, false),
            Some("s"),
        ),
        (json!({ "cache_salt": 5 }), (false, false), None),
        (json!({ "cache_salt": "" }), (false, false), None),
        (
            json!({ "unknown": [[[1.5, -1, true]]], "cache_salt": "s" }),
            (false, false),
            Some("s"),
        ),
        (json!([1, { "cache_salt": "s" }]), (false, false), None),
        (json!("text"), (false, false), None),
        (json!(7), (false, false), None),
    ] {
        let extensions = lenient(json!({ "nvext": nvext })).options.extensions;
        assert_eq!((extensions.worker_id, extensions.timing), asks, "{nvext}");
        assert_eq!(extensions.cache_salt.as_deref(), salt, "{nvext}");
    }
}

#[test]
fn fields_without_an_effect_take_little_memory_and_no_long_answer() {
    let many: Vec<String> = (0..100_000).map(|at| format!("\"a{at}\":1")).collect();
    let body = format!(r#"{{"model":"m",{}}}"#, many.join(","));
    for unknown in [UnknownFields::Refuse, UnknownFields::Ignore] {
        let error = ChatRequest::parse(body.as_bytes(), unknown).unwrap_err();
        assert!(
            error.message.contains("more than 64 other fields"),
            "{error}"
        );
    }
    let long = "x".repeat(1 << 20);
    for body in [
        json!({ long.clone(): 1 }),
        json!({ "nvext": { long.clone(): 1 } }),
        json!({ "messages": [{ "role": "user", "content": "hi", long: 1 }] }),
    ] {
        let error = chat(body).unwrap_err();
        assert!(error.message.len() < 300, "{} bytes", error.message.len());
    }
}
