//! Tools and the choice among them, as Anthropic's clients send them.

use std::collections::BTreeSet;

use super::problems::Problems;
use super::tables;
use crate::request::list::list;
use crate::request::object::{name, object};
use crate::request::tools::function_name;
use crate::{JsonText, RequestError, Tool, ToolChoice};

/// Agents with many servers of tools have several hundred.
const MAX_TOOLS: usize = 1024;

object! {
    RawTool, "a tool object" {
        r#type: String,
        name: String,
        description: String,
        input_schema: JsonText,
        strict: bool,
    }
}

object! {
    RawChoice, "a tool choice object" {
        r#type: String,
        name: String,
        disable_parallel_tool_use: bool,
    }
}

list! {
    /// `tools`.
    RawTools(RawTool), MAX_TOOLS, "tools"
}

/// `tools`, checked. No two have the same name.
pub(super) fn check(
    tools: Option<RawTools>,
    problems: &mut Problems,
) -> Result<Vec<Tool>, RequestError> {
    let tools = tools.map_or_else(Vec::new, |tools| tools.0);
    let mut names = BTreeSet::new();
    let mut checked = Vec::with_capacity(tools.len());
    for (index, tool) in tools.into_iter().enumerate() {
        let path = format!("tools[{index}]");
        let mut inner = Problems::default();
        let tool = tool.check(&mut inner).map_err(|error| error.under(&path))?;
        problems.absorb(inner, format_args!("{path}"));
        if !names.insert(tool.name.clone()) {
            let problem = format_args!("`{}` is the name of another tool too", tool.name);
            return Err(RequestError::invalid(&format!("{path}.name"), problem));
        }
        checked.push(tool);
    }
    Ok(checked)
}

impl RawTool {
    /// Paths are relative to the tool.
    fn check(self, problems: &mut Problems) -> Result<Tool, RequestError> {
        if let Some(other) = self.r#type.as_deref().filter(|kind| *kind != "custom") {
            let what = format!("a tool of type `{}`", name(other));
            return Err(RequestError::unsupported("type", what));
        }
        problems.add_others(&self.others, &tables::TOOL);
        let name = function_name(self.name, "name")?;
        let Some(schema) = self.input_schema else {
            return Err(RequestError::missing("input_schema"));
        };
        if !schema.is_object() {
            let problem = format_args!("must be a JSON schema, which is an object");
            return Err(RequestError::invalid("input_schema", problem));
        }
        Ok(Tool {
            name,
            description: self.description,
            parameters: Some(schema),
        })
    }
}

/// What `tool_choice` asks for.
#[derive(Debug, Default)]
pub(super) struct Choice {
    pub(super) tool_choice: ToolChoice,
    /// Whether an answer may hold one call only.
    pub(super) one_call: bool,
}

impl RawChoice {
    pub(super) fn check(
        self,
        tools: &[Tool],
        problems: &mut Problems,
    ) -> Result<Choice, RequestError> {
        let mut inner = Problems::default();
        inner.add_others(&self.others, &[]);
        let tool_choice = match (self.r#type.as_deref(), self.name) {
            (Some("tool"), Some(name)) => ToolChoice::Named(name),
            (Some("tool"), None) => return Err(RequestError::missing("tool_choice.name")),
            (Some(kind @ ("auto" | "any" | "none")), name) => {
                if name.is_some() {
                    inner.add_unknown("name");
                }
                match kind {
                    "any" => ToolChoice::Required,
                    "none" => ToolChoice::None,
                    _ => ToolChoice::Auto,
                }
            }
            (Some(other), _) => {
                let problem = format_args!("`{}` is not one of auto, any, tool, none", name(other));
                return Err(RequestError::invalid("tool_choice.type", problem));
            }
            (None, _) => return Err(RequestError::missing("tool_choice.type")),
        };
        problems.absorb(inner, format_args!("tool_choice"));
        Ok(Choice {
            tool_choice: tool_choice.check(tools)?,
            one_call: self.disable_parallel_tool_use.unwrap_or(false),
        })
    }
}
