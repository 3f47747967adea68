//! A conversation becomes one text.
//!
//! Models ship their chat template as Jinja for Python's engine, with a few functions that
//! Hugging Face adds. `minijinja` runs them, set up to agree with Python where templates can
//! tell: block trimming, string methods, JSON as `json.dumps` writes it. The embedded
//! template takes the same path, so there is one way for a prompt to come about.
//!
//! The date is an input ([`ChatTemplate::new`]'s `clock`): a template that prints it would
//! otherwise make equal runs differ.

mod calendar;
mod json;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::SystemTime;

use minijinja::{Environment, Error, ErrorKind, Value};
use openai::Message;

pub use self::calendar::strftime;
use crate::conversation::{Conversation, Written, short_turns};
use crate::error::{PrepareError, TemplateFault, describe};

/// The embedded model's template: Llama 3's format.
pub const EMBEDDED: &str = "\
{{- bos_token }}
{%- if tools -%}
<|start_header_id|>system<|end_header_id|>{{ '\\n\\n' }}You can call these functions:
{% for tool in tools %}
{{ tool.function | tojson }}
{% endfor %}
A call is the whole answer: {\"name\": the function, \"parameters\": its arguments}<|eot_id|>
{%- endif -%}
{%- for message in messages -%}
<|start_header_id|>{{ 'system' if message.role == 'developer' else 'ipython' if message.role == 'tool' else message.role -}}
<|end_header_id|>{{ '\\n\\n' }}{{ message.content | trim }}
{%- if message.tool_calls -%}
{%- for call in message.tool_calls -%}
{{ '; ' if not loop.first }}{\"name\": {{ call.function.name | tojson }}, \"parameters\": {{ call.function.arguments | tojson }}}
{%- endfor -%}
{%- endif -%}
<|eot_id|>
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start_header_id|>assistant<|end_header_id|>{{ '\\n\\n' }}
{%- endif -%}
";

/// The name under which the one template is kept. Without an extension, nothing is escaped.
const NAME: &str = "chat";

/// A compiled chat template.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    bos: String,
    eos: String,
    clock: fn() -> SystemTime,
    source: String,
}

impl ChatTemplate {
    /// Compiles `source`. `bos` and `eos` are the texts of the tokens of that name.
    pub fn new(
        source: &str,
        bos: &str,
        eos: &str,
        clock: fn() -> SystemTime,
    ) -> Result<Self, TemplateFault> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_filter("tojson", json::to_json);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", move |format: &str| {
            strftime(format, clock())
        });
        environment
            .add_template_owned(NAME, without_generation_marks(source))
            .map_err(TemplateFault::Syntax)?;
        Ok(Self {
            environment,
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            clock,
            source: source.to_owned(),
        })
    }

    /// As the model ships it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a conversation's tools come to be in the prompt.
    pub(crate) fn renders_tools(&self) -> bool {
        const NAME: &str = "homing_probe";
        let turns = short_turns();
        let rendered = Conversation::probe(&turns[..1], NAME)
            .and_then(|conversation| self.render_with(&conversation, Written(None)));
        rendered.is_ok_and(|text| text.contains(NAME))
    }

    /// The prompt that asks the assistant for its next turn.
    pub fn render(&self, messages: &[Message]) -> Result<String, PrepareError> {
        self.render_with(&Conversation::of_messages(messages)?, Written(None))
    }

    /// The same, with whatever a user wrote as `written` has it.
    pub(crate) fn render_with(
        &self,
        conversation: &Conversation<'_>,
        written: Written<'_>,
    ) -> Result<String, PrepareError> {
        let template = self
            .environment
            .get_template(NAME)
            .expect("compiled in new");
        let date = strftime("%d %b %Y", (self.clock)());
        let fixed = [
            ("messages", conversation.message_values(written).into()),
            ("add_generation_prompt", true.into()),
            ("bos_token", Value::from(&*self.bos)),
            ("eos_token", Value::from(&*self.eos)),
            ("tools", conversation.tool_values(written)),
            ("date_string", Value::from(date)),
        ];
        let fixed = fixed.map(|(name, value)| (Cow::Borrowed(name), value));
        let variables = fixed.into_iter().chain(conversation.variables(written));
        let variables: Value = variables.collect();
        template
            .render(variables)
            .map_err(|error| PrepareError::Template {
                message: describe(&error),
            })
    }
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Training code marks the assistant's words with a tag of its own. It prints nothing, so a
/// condition that always holds stands in for it and keeps the white-space rules of a tag.
fn without_generation_marks(source: &str) -> String {
    let mut source = source.to_owned();
    for open in ["{%", "{%-"] {
        for close in ["%}", "-%}"] {
            for (mark, tag) in [("generation", "if true"), ("endgeneration", "endif")] {
                let marked = format!("{open} {mark} {close}");
                if source.contains(&marked) {
                    source = source.replace(&marked, &format!("{open} {tag} {close}"));
                }
            }
        }
    }
    source
}
