//! Bodies of requests, and answers that models write.

use std::io;

use serde_json::json;

use super::write;

pub(super) fn bodies() -> io::Result<()> {
    let chat = json!({"model": "m", "messages": [
        {"role": "system", "content": "Be short."},
        {"role": "user", "name": "n", "content": [{"type": "text", "text": "Grüße, 東京 🙂"}]},
        {"role": "assistant", "content": null, "tool_calls": []}],
        "max_completion_tokens": 8, "min_tokens": 1, "temperature": 0.5, "top_p": 0.9, "top_k": 4,
        "seed": -3, "stop": ["\n", "end"], "stream": true, "logprobs": true, "top_logprobs": 2,
        "stream_options": {"include_usage": true, "continuous_usage_stats": true},
        "user": "u", "conversation_id": "c", "nvext": {"extra_fields": ["worker_id", "timing"],
        "cache_salt": "s", "ignore_eos": true}});
    write("openai_body", "chat", b"", chat.to_string().as_bytes())?;
    let text = json!({"model": "m", "prompt": ["<|begin_of_text|>Once", "upon a time"],
        "max_tokens": 4, "echo": true, "logprobs": 3, "stop": "x", "n": 1, "best_of": 1,
        "presence_penalty": 0.1, "frequency_penalty": -0.1, "ignore_eos": true});
    write("openai_body", "text", b"", text.to_string().as_bytes())?;
    let tokens = json!({"model": "m", "prompt": [[1, 2, 3], [128_000]], "top_k": -1});
    write("openai_body", "tokens", b"", tokens.to_string().as_bytes())?;
    let schema =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let call = json!({"id": "c", "type": "function",
        "function": {"name": "f", "arguments": "{\"city\": \"Bern\"}"}});
    let tools = json!({"model": "m", "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "21"}],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d",
            "parameters": schema, "strict": true}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
        "n": 2, "logit_bias": {"5": -1.5}, "stop_token_ids": [7]});
    write("openai_body", "tools", b"", tools.to_string().as_bytes())?;
    let format = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}});
    write("openai_body", "schema", b"", format.to_string().as_bytes())?;
    let grammar = json!({"model": "m", "prompt": "hi", "structured_outputs": {"regex": "a+b?"}});
    write("openai_body", "regex", b"", grammar.to_string().as_bytes())?;
    let response = json!({"model": "m", "instructions": "Be short.", "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "21"}],
        "tools": [{"type": "function", "name": "f", "parameters": schema}],
        "text": {"format": {"type": "json_object"}}, "max_output_tokens": 9, "store": false});
    write(
        "openai_body",
        "response",
        b"",
        response.to_string().as_bytes(),
    )?;
    let message = json!({"model": "m", "max_tokens": 9, "system": [{"type": "text",
        "text": "x-anthropic-billing-header: a;\nBe short.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "tool_use", "id": "c", "name": "f", "input": {"city": "Bern"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "21"}]}],
        "tools": [{"name": "f", "input_schema": schema}], "tool_choice": {"type": "any"},
        "stop_sequences": ["x"], "thinking": {"type": "disabled"}});
    write(
        "openai_body",
        "message",
        b"",
        message.to_string().as_bytes(),
    )
}

/// The first byte chooses the format.
pub(super) fn model_answers() -> io::Result<()> {
    let target = "model_answer";
    let hermes =
        "Well.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n</tool_call>";
    write(target, "hermes", &[32], hermes.as_bytes())?;
    let llama = "<|python_tag|>{\"name\": \"f\", \"parameters\": {\"a\": null}}; {\"name\": \"g\"}";
    write(target, "llama3", &[1], llama.as_bytes())?;
    let mistral =
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {}}]";
    write(target, "mistral", &[2], mistral.as_bytes())?;
    write(
        target,
        "mistral-new",
        &[2],
        b"[TOOL_CALLS]f[ARGS]{\"a\": 1}",
    )?;
    write(
        target,
        "pythonic",
        &[3],
        b"[f(a=1, b=['x', True], c={'k': None}), get_weather()]",
    )?;
    let thought = "<think>\nhm <tool_call>\n</think>\n\nDone.";
    write(target, "thought", &[64], thought.as_bytes())
}

/// The family, the merges, and pieces of text by number, or behind 255 as they are.
pub(super) fn tokenized() -> io::Result<()> {
    let target = "tokenizer";
    let merges = [
        12, 0, 1, 16, 2, 6, 0, 6, 17, 3, 5, 3, 7, 7, 6, 6, 9, 9, 1, 18, 20, 0, 0, 0, 2,
    ];
    for family in 0..27 {
        let first = [&[family][..], &merges, &[255]].concat();
        let text = "It's <s>abe aba  \n\n 123 e\u{301} \u{65e5}\u{672c}<tool>a<end> b";
        write(target, &format!("text-{family}"), &first, text.as_bytes())?;
    }
    let first = [&[2][..], &merges].concat();
    write(
        target,
        "runs",
        &first,
        &[128, 200, 137, 90, 160, 50, 33, 5, 31, 36],
    )
}
