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

use minijinja::{Environment, Error, ErrorKind, Value, context};
use openai::Message;

pub use self::calendar::strftime;
use crate::error::{PrepareError, TemplateFault, describe};

/// The embedded model's template: Llama 3's format.
pub const EMBEDDED: &str = "\
{{- bos_token }}
{%- for message in messages -%}
<|start_header_id|>{{ 'system' if message.role == 'developer' else message.role -}}
<|end_header_id|>{{ '\\n\\n' }}{{ message.content | trim }}<|eot_id|>
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
        })
    }

    /// The prompt that asks the assistant for its next turn.
    pub fn render(&self, messages: &[Message]) -> Result<String, PrepareError> {
        self.render_with(messages, Cow::Borrowed)
    }

    /// The same, with whatever a user wrote passed through `told` first.
    pub(crate) fn render_with<'m>(
        &self,
        messages: &'m [Message],
        told: impl Fn(&'m str) -> Cow<'m, str>,
    ) -> Result<String, PrepareError> {
        let messages = messages.iter().map(|message| message_value(message, &told));
        let messages: Vec<Value> = messages.collect();
        let template = self
            .environment
            .get_template(NAME)
            .expect("compiled in new");
        template
            .render(context! {
                messages,
                add_generation_prompt => true,
                bos_token => &self.bos,
                eos_token => &self.eos,
                tools => (),
                date_string => strftime("%d %b %Y", (self.clock)()),
            })
            .map_err(|error| PrepareError::Template {
                message: describe(&error),
            })
    }
}

/// A message as templates see it. The content is copied once, into a shared string.
fn message_value<'m>(message: &'m Message, told: impl Fn(&'m str) -> Cow<'m, str>) -> Value {
    let mut fields = vec![
        ("role", Value::from(message.role.as_str())),
        ("content", Value::from(&*told(&message.content))),
    ];
    if let Some(name) = &message.name {
        fields.push(("name", Value::from(&*told(name))));
    }
    Value::from_iter(fields)
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
