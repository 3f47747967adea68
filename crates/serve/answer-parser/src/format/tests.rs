//! Names, and the templates of known models in their decisive lines.

use super::*;

#[test]
fn names_are_read_back() {
    for format in ToolFormat::ALL {
        assert_eq!(ToolFormat::named(format.as_str()), Some(format));
    }
    for format in ReasoningFormat::ALL {
        assert_eq!(ReasoningFormat::named(format.as_str()), Some(format));
    }
    assert_eq!(ToolFormat::named("xml"), None);
    assert_eq!(ReasoningFormat::named("harmony"), None);
}

#[track_caller]
fn check(source: &str, tools: Option<ToolFormat>, reasoning: Option<ReasoningFormat>) {
    assert_eq!(ToolFormat::of_template(source), tools);
    assert_eq!(ReasoningFormat::of_template(source), reasoning);
}

#[test]
fn qwen_writes_as_hermes_does() {
    let qwen25 = r#"{%- if tools %}{{- "return a json object within <tool_call></tool_call>:\n<tool_call>\n{\"name\": <function-name>" }}"#;
    check(qwen25, Some(ToolFormat::Hermes), None);
    let qwen3 = format!("{qwen25}{{%- set content = content.split('</think>')[-1] %}}");
    check(
        &qwen3,
        Some(ToolFormat::Hermes),
        Some(ReasoningFormat::Think),
    );
}

#[test]
fn xml_between_the_same_tags_is_another_format() {
    let coder = "{%- if tools %}<tool_call>\n<function=example_function_name>\n</function>";
    check(coder, None, None);
    let glm = "{%- if tools %}<tool_call>{function-name}\n<arg_key>{arg-key-1}</arg_key>";
    check(glm, None, None);
}

#[test]
fn llama_has_two_formats() {
    let json = r#"{%- if tools is not none %}{{- '<|start_header_id|>assistant' -}}{{- '{"name": "' + tool_call.name + '", ' }}{{- '"parameters": ' }}"#;
    check(json, Some(ToolFormat::Llama3), None);
    let tagged = r#"{%- if builtin_tools %}{{- "<|python_tag|>" + tool_call.name + ".call(" }}"#;
    check(tagged, Some(ToolFormat::Llama3), None);
    let pythonic = "{%- if tools %}<|start_header_id|>[func_name1(params_name1=params_value1)]";
    check(pythonic, Some(ToolFormat::Pythonic), None);
    let llama4 = "{%- if tools %}<|header_start|>assistant<|python_start|>";
    check(llama4, Some(ToolFormat::Pythonic), None);
}

#[test]
fn mistral_has_its_marker() {
    let mistral = r#"{%- if tools is not none %}{{- "[TOOL_CALLS] [" }}"#;
    check(mistral, Some(ToolFormat::Mistral), None);
}

#[test]
fn a_template_without_tools_has_no_format() {
    check(
        "{% for message in messages %}{{ message }}{% endfor %}",
        None,
        None,
    );
    check("<tool_call>", None, None);
    check("{% if tools %}{{ tools | tojson }}{% endif %}", None, None);
    let distill = "{% set content = content.split('</think>')[-1] %}";
    check(distill, None, Some(ReasoningFormat::Think));
}
