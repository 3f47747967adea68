//! How the model is to think, and what its answer must look like.

use super::problems::Problems;
use super::tables;
use crate::request::object::{name, object};
use crate::request::options::within;
use crate::{JsonText, OutputConstraint, OutputFormat, ReasoningEffort, RequestError};

/// Budgets of thought, in tokens, from which on an effort is medium or high.
const MEDIUM_BUDGET: i64 = 4096;
const HIGH_BUDGET: i64 = 16_384;

object! {
    RawThinking, "a thinking object" {
        r#type: String,
        budget_tokens: i64,
        display: String,
    }
}

object! {
    RawOutputConfig, "an object" {
        effort: String,
        format: RawFormat,
    }
}

object! {
    RawFormat, "a format object" {
        r#type: String,
        schema: JsonText,
    }
}

/// What `thinking` asks for.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    pub(super) effort: Option<ReasoningEffort>,
    /// Whether the client wants thoughts without their text.
    pub(super) omit: bool,
}

impl RawThinking {
    pub(super) fn check(self, problems: &mut Problems) -> Result<Thinking, RequestError> {
        let mut inner = Problems::default();
        inner.add_others(&self.others, &[]);
        let positive = 1..=i64::from(u32::MAX);
        let budget = within("thinking.budget_tokens", self.budget_tokens, &positive)?;
        let effort = match (self.r#type.as_deref(), budget) {
            (Some("enabled"), Some(budget)) => Some(match budget {
                HIGH_BUDGET.. => ReasoningEffort::High,
                MEDIUM_BUDGET.. => ReasoningEffort::Medium,
                _ => ReasoningEffort::Low,
            }),
            (Some("enabled"), None) => {
                return Err(RequestError::missing("thinking.budget_tokens"));
            }
            (Some(kind @ ("disabled" | "adaptive")), budget) => {
                if budget.is_some() {
                    inner.add_unknown("budget_tokens");
                }
                (kind == "disabled").then_some(ReasoningEffort::None)
            }
            (Some(other), _) => {
                let other = name(other);
                let problem = format_args!("`{other}` is not one of enabled, disabled, adaptive");
                return Err(RequestError::invalid("thinking.type", problem));
            }
            (None, _) => return Err(RequestError::missing("thinking.type")),
        };
        let omit = match self.display.as_deref() {
            None | Some("summarized") => false,
            Some("omitted") => true,
            Some(other) => {
                let problem = format_args!("`{}` is not one of summarized, omitted", name(other));
                return Err(RequestError::invalid("thinking.display", problem));
            }
        };
        problems.absorb(inner, format_args!("thinking"));
        Ok(Thinking { effort, omit })
    }
}

/// What `output_config` asks for.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) effort: Option<ReasoningEffort>,
    pub(super) constraint: Option<OutputConstraint>,
}

impl RawOutputConfig {
    fn check(self, problems: &mut Problems) -> Result<Output, RequestError> {
        let mut inner = Problems::default();
        inner.add_others(&self.others, &tables::OUTPUT_CONFIG);
        let effort = match self.effort.as_deref() {
            None => None,
            Some("low") => Some(ReasoningEffort::Low),
            Some("medium") => Some(ReasoningEffort::Medium),
            Some("high") => Some(ReasoningEffort::High),
            // The most that templates know.
            Some("xhigh" | "max") => Some(ReasoningEffort::ExtraHigh),
            Some(other) => {
                let other = name(other);
                let problem = format_args!("`{other}` is not one of low, medium, high, xhigh, max");
                return Err(RequestError::invalid("output_config.effort", problem));
            }
        };
        problems.absorb(inner, format_args!("output_config"));
        let constraint = match self.format {
            Some(format) => Some(format.check("output_config.format.schema", problems)?),
            None => None,
        };
        Ok(Output { effort, constraint })
    }
}

/// `output_config` and `output_format`, its older name for one of its members.
pub(super) fn check(
    config: Option<RawOutputConfig>,
    format: Option<RawFormat>,
    problems: &mut Problems,
) -> Result<Output, RequestError> {
    let mut output = match config {
        Some(config) => config.check(problems)?,
        None => Output::default(),
    };
    if let Some(format) = format {
        if output.constraint.is_some() {
            let problem = format_args!("cannot be combined with `output_config.format`");
            return Err(RequestError::invalid("output_format", problem));
        }
        output.constraint = Some(format.check("output_format.schema", problems)?);
    }
    Ok(output)
}

impl RawFormat {
    /// `param` is the path of the schema.
    fn check(
        self,
        param: &'static str,
        problems: &mut Problems,
    ) -> Result<OutputConstraint, RequestError> {
        let path = param.strip_suffix(".schema").unwrap_or(param);
        let mut inner = Problems::default();
        inner.add_others(&self.others, &[]);
        problems.absorb(inner, format_args!("{path}"));
        let missing = |field| RequestError::missing(field).under(path);
        match self.r#type.as_deref() {
            Some("json_schema") => {}
            Some(other) => {
                let what = format!("a format of type `{}`", name(other));
                return Err(RequestError::unsupported("type", what).under(path));
            }
            None => return Err(missing("type")),
        }
        let schema = self.schema.ok_or_else(|| missing("schema"))?;
        let format = OutputFormat::JsonSchema(schema);
        OutputConstraint { format, param }.check()
    }
}
