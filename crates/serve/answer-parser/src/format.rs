//! The formats that models write answers in, and how a chat template reveals them.
//!
//! A template shows the model the calls of earlier turns, so its source has the markers that the
//! model will write. A template with a marker that several formats share is told apart by what
//! only the others have.

#[cfg(test)]
mod tests;

/// How a model writes tool calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolFormat {
    /// `<tool_call>{"name": "f", "arguments": {…}}</tool_call>`: Hermes, Qwen 2.5, Qwen 3.
    Hermes,
    /// `{"name": "f", "parameters": {…}}` as the whole answer: Llama 3.
    Llama3,
    /// `[TOOL_CALLS][{"name": "f", "arguments": {…}}]`, or `[TOOL_CALLS]f[ARGS]{…}`: Mistral.
    Mistral,
    /// `[f(a=1, b="x"), g()]` as the whole answer: Llama 4, Llama 3.2.
    Pythonic,
}

impl ToolFormat {
    pub const ALL: [Self; 4] = [Self::Hermes, Self::Llama3, Self::Mistral, Self::Pythonic];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hermes => "hermes",
            Self::Llama3 => "llama3",
            Self::Mistral => "mistral",
            Self::Pythonic => "pythonic",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// The format that a model with this chat template writes, judged by the markers in its Jinja
    /// source. `None` if the template does not render tools, or has none of the known markers.
    pub fn of_template(source: &str) -> Option<Self> {
        let has = |marker: &str| source.contains(marker);
        if !has("tools") {
            return None;
        }
        if has("[TOOL_CALLS]") {
            return Some(Self::Mistral);
        }
        if has("<tool_call>") {
            // Qwen 3 Coder and GLM 4.5 write XML between the same tags.
            let xml = has("<function=") || has("<arg_key>");
            return (!xml).then_some(Self::Hermes);
        }
        // The words of Meta's instructions for calls as Python.
        if has("[func_name1(") {
            return Some(Self::Pythonic);
        }
        let headers = has("<|start_header_id|>") || has("<|header_start|>");
        if has("<|python_tag|>") || (headers && has(r#""parameters": "#)) {
            return Some(Self::Llama3);
        }
        has("<|python_start|>").then_some(Self::Pythonic)
    }

    /// Special tokens that must reach the parser as text, if the vocabulary has them.
    pub const fn markers(self) -> &'static [&'static str] {
        match self {
            Self::Hermes => &["<tool_call>", "</tool_call>"],
            Self::Llama3 => &["<|python_tag|>"],
            Self::Mistral => &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
            Self::Pythonic => &["<|python_start|>", "<|python_end|>"],
        }
    }
}

/// How a model separates its reasoning from the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningFormat {
    /// `<think>` … `</think>` before the answer: Qwen 3, DeepSeek R1.
    Think,
}

impl ReasoningFormat {
    pub const ALL: [Self; 1] = [Self::Think];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Think => "think",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == name)
    }

    /// The format that a model with this chat template writes. Such a template removes the
    /// reasoning of earlier turns, for which it needs the closing tag.
    pub fn of_template(source: &str) -> Option<Self> {
        source.contains("</think>").then_some(Self::Think)
    }

    /// Special tokens that must reach the parser as text, if the vocabulary has them.
    pub const fn markers(self) -> &'static [&'static str] {
        match self {
            Self::Think => &["<think>", "</think>"],
        }
    }
}

/// What an answer may consist of besides content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AnswerFormat {
    /// `None`: tool calls are not looked for.
    pub tools: Option<ToolFormat>,
    /// `None`: reasoning is not looked for.
    pub reasoning: Option<ReasoningFormat>,
    /// The prompt already ended with `<think>`.
    pub begins_in_reasoning: bool,
}
