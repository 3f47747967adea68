//! The body of `/v1/messages`, parsed, checked and translated.

#[cfg(test)]
mod tests;

use super::content::{Messages, Texts};
use super::output::{self, RawFormat, RawOutputConfig, RawThinking, Thinking};
use super::problems::Problems;
use super::tools::{self, Choice, RawChoice, RawTools};
use super::{stable_system, tables};
use crate::request::list::{TextOr, list};
use crate::request::object::{Glimpse, name, object};
use crate::request::options::{RawOptions, stops, within};
use crate::request::parse_fields;
use crate::request::value::{self, Stops};
use crate::{
    ChatRequest, GenerationOptions, Message, ReasoningEffort, RequestError, Role, UnknownFields,
};

/// Edits in one `context_management`.
const MAX_EDITS: usize = 16;

/// `POST /v1/messages`.
#[derive(Clone, Debug, PartialEq)]
pub struct MessagesRequest {
    /// The same request to `/v1/chat/completions`. Usage is always included.
    pub chat: ChatRequest,
    /// Whether a changing line was removed from the system prompt.
    pub normalized: bool,
    /// Whether the client wants thoughts without their text.
    pub omit_thinking: bool,
}

object! {
    /// `POST /v1/messages`, and `/v1/messages/count_tokens`.
    RawRequest, "a JSON object" {
        model: String,
        messages: Messages,
        max_tokens: i64,
        system: TextOr<Texts>,
        stop_sequences: Stops,
        stream: bool,
        temperature: f64,
        top_p: f64,
        top_k: i64,
        tools: RawTools,
        tool_choice: RawChoice,
        metadata: RawMetadata,
        thinking: RawThinking,
        output_config: RawOutputConfig,
        output_format: RawFormat,
        context_management: RawContext,
    }
}

object! {
    RawMetadata, "an object" {
        user_id: String,
    }
}

object! {
    RawContext, "an object" {
        edits: RawEdits,
    }
}

object! {
    RawEdit, "an edit object" {
        r#type: String,
        keep: Glimpse,
    }
}

list! {
    /// `context_management.edits`.
    RawEdits(RawEdit), MAX_EDITS, "edits"
}

/// Parses the body of `/v1/messages`. With `normalize_agents`, [`stable_system`] is applied to the
/// system prompt.
pub fn parse(
    body: &[u8],
    unknown: UnknownFields,
    normalize_agents: bool,
) -> Result<MessagesRequest, RequestError> {
    let fields: RawRequest = parse_fields(body)?;
    if fields.max_tokens.is_none() {
        return Err(RequestError::missing("max_tokens"));
    }
    if let Some(messages) = &fields.messages
        && messages.ends_with_assistant
    {
        let path = format!("messages[{}].role", messages.count.saturating_sub(1));
        let what = "an answer that continues the assistant's last message".to_owned();
        return Err(RequestError::unsupported(&path, what));
    }
    fields.check(unknown, normalize_agents)
}

/// Parses the body of `/v1/messages/count_tokens`: the same, but nothing is generated.
pub fn parse_count(
    body: &[u8],
    unknown: UnknownFields,
    normalize_agents: bool,
) -> Result<MessagesRequest, RequestError> {
    parse_fields::<RawRequest>(body)?.check(unknown, normalize_agents)
}

impl RawRequest {
    fn check(
        self,
        unknown: UnknownFields,
        normalize_agents: bool,
    ) -> Result<MessagesRequest, RequestError> {
        let mut problems = Problems::default();
        problems.add_others(&self.others, &tables::BODY);
        let model = value::model(self.model)?;
        let conversation =
            conversation(self.messages, self.system, normalize_agents, &mut problems)?;
        let tools = tools::check(self.tools, &mut problems)?;
        let choice = match self.tool_choice {
            Some(choice) => choice.check(&tools, &mut problems)?,
            None => Choice::default(),
        };
        let thinking = match self.thinking {
            Some(thinking) => thinking.check(&mut problems)?,
            None => Thinking::default(),
        };
        let output = output::check(self.output_config, self.output_format, &mut problems)?;
        choice.tool_choice.check_with(output.constraint.as_ref())?;
        if let Some(context) = self.context_management {
            context.check(&mut problems);
        }
        let user = self
            .metadata
            .and_then(|metadata| metadata.check(&mut problems));
        problems.check(unknown)?;
        within("temperature", self.temperature, &(0.0..=1.0))?;
        let options = RawOptions {
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            top_p: self.top_p,
            top_k: self.top_k,
            stream: self.stream,
            ..RawOptions::default()
        };
        let stop = self
            .stop_sequences
            .map(|stops| TextOr::List(Box::new(stops)));
        let options = GenerationOptions {
            stop: stops("stop_sequences", stop)?,
            constraint: output.constraint,
            user,
            include_usage: true,
            ..options.check(unknown)?
        };
        Ok(MessagesRequest {
            chat: ChatRequest {
                model,
                messages: conversation.messages,
                tools,
                tool_choice: choice.tool_choice,
                parallel_tool_calls: !choice.one_call,
                reasoning_effort: match thinking.effort {
                    Some(ReasoningEffort::None) => Some(ReasoningEffort::None),
                    by_budget => output.effort.or(by_budget),
                },
                template_arguments: None,
                options,
            },
            normalized: conversation.normalized,
            omit_thinking: thinking.omit,
        })
    }
}

/// The messages with the system prompt before them.
struct Conversation {
    messages: Vec<Message>,
    normalized: bool,
}

fn conversation(
    messages: Option<Messages>,
    system: Option<TextOr<Texts>>,
    normalize_agents: bool,
    problems: &mut Problems,
) -> Result<Conversation, RequestError> {
    let messages = messages.ok_or_else(|| RequestError::missing("messages"))?;
    if messages.count == 0 {
        let rule = "must hold at least one message";
        return Err(RequestError::empty("messages", rule));
    }
    problems.merge(messages.problems);
    let system = match system {
        Some(system) => system.into_text(problems, "system"),
        None => String::new(),
    };
    let stable = match normalize_agents {
        true => stable_system(&system),
        false => system.as_str().into(),
    };
    // An empty prompt is none.
    let first = (!stable.is_empty()).then(|| Message::new(Role::System, &*stable));
    Ok(Conversation {
        messages: first.into_iter().chain(messages.all).collect(),
        normalized: stable.len() != system.len(),
    })
}

impl RawMetadata {
    fn check(self, problems: &mut Problems) -> Option<String> {
        let mut inner = Problems::default();
        inner.add_others(&self.others, &[]);
        problems.absorb(inner, format_args!("metadata"));
        self.user_id
    }
}

impl RawContext {
    /// Accepts what leaves the conversation as it is: agents ask for that in so many words.
    fn check(self, problems: &mut Problems) {
        let mut inner = Problems::default();
        inner.add_others(&self.others, &[]);
        let edits = self.edits.map_or_else(Vec::new, |edits| edits.0);
        for (index, edit) in edits.into_iter().enumerate() {
            let mut of_edit = Problems::default();
            of_edit.add_others(&edit.others, &[]);
            let keeps_all = match &edit.keep {
                Some(Glimpse::Text(word)) => word == "all",
                Some(Glimpse::Object { kind, .. }) => kind.as_deref() == Some("all"),
                _ => false,
            };
            match edit.r#type.as_deref() {
                Some(kind) if kind.starts_with("clear_thinking_") => {
                    if !keeps_all {
                        let what = "anything but `all`".to_owned();
                        of_edit.add(RequestError::unsupported("keep", what));
                    }
                }
                Some(other) => {
                    let what = format!("an edit of type `{}`", name(other));
                    of_edit.add(RequestError::unsupported("type", what));
                }
                None => of_edit.add(RequestError::missing("type")),
            }
            inner.absorb(of_edit, format_args!("edits[{index}]"));
        }
        problems.absorb(inner, format_args!("context_management"));
    }
}
