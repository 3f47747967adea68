//! Where a setting comes from: command line over environment over file over default.
//!
//! The environment and the file are translated into arguments and put in front of the real
//! ones; the last occurrence of an option wins, so precedence is an order in a list and
//! every value is checked by the same parser. Each source is first parsed alone, so that a
//! bad value is blamed on the variable or file it came from.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context as _, bail};
use clap::parser::ValueSource;
use clap::{ArgAction, Command, CommandFactory as _, Parser as _};

use crate::args::{Cli, FrontendArgs};
use crate::print;

/// Names of NVIDIA Dynamo and of OpenTelemetry that mean one of our options.
const OTHER_NAMES: [(&str, &str); 12] = [
    ("router-mode", "DYN_ROUTER_MODE"),
    ("kv-cache-block-size", "DYN_KV_CACHE_BLOCK_SIZE"),
    ("overlap-score-weight", "DYN_KV_OVERLAP_SCORE_WEIGHT"),
    ("router-temperature", "DYN_ROUTER_TEMPERATURE"),
    ("http-port", "DYN_HTTP_PORT"),
    ("dynamo-file-kv", "DYN_FILE_KV"),
    ("dynamo-namespace", "DYN_NAMESPACE"),
    ("otlp-endpoint", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ("otlp-protocol", "OTEL_EXPORTER_OTLP_PROTOCOL"),
    ("otlp-headers", "OTEL_EXPORTER_OTLP_HEADERS"),
    ("trace-service-name", "OTEL_SERVICE_NAME"),
    ("trace-resource", "OTEL_RESOURCE_ATTRIBUTES"),
];

/// Options that have another name now: the old name, which still works, and the new one.
const RENAMED: [(&str, &str); 2] = [
    ("engine", "upstream"),
    ("engine-api-key-env", "upstream-api-key-env"),
];

/// A value that did not come from the command line, or several of an option that may be repeated.
#[derive(Clone, Debug)]
struct Setting {
    values: Vec<String>,
    source: String,
}

/// Where a configuration file lists models.
const MODELS: &str = "models";

/// Headings of the options that models may have each for itself.
const OF_MODEL: [&str; 3] = ["Model", "Workers", "Routing"];

/// One of several models.
pub(crate) struct ModelSettings {
    pub(crate) args: FrontendArgs,
    /// All that led to them: a change means another model.
    pub(crate) words: Vec<OsString>,
}

type Layer = BTreeMap<String, Setting>;

/// The program's arguments with file and environment put in front of them.
pub(crate) fn layered_arguments(arguments: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let Some((command, depth)) = settings_command(&arguments) else {
        return Ok(arguments);
    };
    let (environment, file) = layers(&command, &arguments)?;
    for (old, new) in outdated(&command, &arguments[depth..], &[&environment, &file]) {
        print::note(format_args!("--{old} is now --{new}"));
    }
    let mut layered = arguments[..depth].to_vec();
    for layer in [&file, &environment] {
        let flags = flags(&command, layer);
        check(&command, layer, &flags)?;
        layered.extend(flags);
    }
    layered.extend_from_slice(&arguments[depth..]);
    Ok(layered)
}

/// The command whose options are meant, if it is one that takes settings, and how many leading
/// arguments name it.
fn settings_command(arguments: &[OsString]) -> Option<(Command, usize)> {
    let word = |index: usize| arguments.get(index).and_then(|word| word.to_str());
    let (name, depth) = match (word(1), word(2)) {
        (Some(name @ ("demo" | "frontend" | "epp" | "worker")), _) => (name, 2),
        (Some("config"), Some("show")) => ("demo", 3),
        (Some("config"), Some("show-frontend")) => ("frontend", 3),
        (Some("config"), Some("show-epp")) => ("epp", 3),
        (Some("config"), Some("show-worker")) => ("worker", 3),
        _ => return None,
    };
    Some((command(name), depth))
}

fn layers(command: &Command, arguments: &[OsString]) -> anyhow::Result<(Layer, Layer)> {
    let environment = environment_layer(command);
    let file = match config_path(arguments, &environment) {
        Some(path) => file_layer(command, Path::new(&path))?,
        None => Layer::new(),
    };
    Ok((environment, file))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this crate is the reader of the environment"
)]
fn environment_layer(command: &Command) -> Layer {
    let mut layer = Layer::new();
    let names = command.get_arguments().filter_map(|one| one.get_long());
    let old_names = renamed(command).map(|(old, _)| old);
    for name in names.chain(old_names) {
        for variable in variables(name) {
            if let Ok(value) = std::env::var(&variable) {
                layer.entry(name.to_owned()).or_insert(Setting {
                    values: vec![value],
                    source: variable,
                });
            }
        }
    }
    layer
}

/// The environment variables of an option, strongest first.
fn variables(name: &str) -> Vec<String> {
    let own = format!("HOMING_{}", name.to_uppercase().replace('-', "_"));
    let others = OTHER_NAMES.iter().filter(|(option, _)| *option == name);
    std::iter::once(own)
        .chain(others.map(|(_, variable)| (*variable).to_owned()))
        .collect()
}

/// The renamed options of a command. One that still has an option of the old name means that.
fn renamed(command: &Command) -> impl Iterator<Item = (&'static str, &'static str)> {
    let has = |name| {
        let mut arguments = command.get_arguments();
        arguments.any(|argument| argument.get_long() == Some(name))
    };
    RENAMED
        .into_iter()
        .filter(move |(old, new)| has(new) && !has(old))
}

/// Which old names are in use, with their new ones.
fn outdated(
    command: &Command,
    words: &[OsString],
    layers: &[&Layer],
) -> Vec<(&'static str, &'static str)> {
    let is_used = |old: &str| {
        let typed = words.iter().filter_map(|word| word.to_str()).any(|word| {
            let name = word.strip_prefix("--").unwrap_or_default();
            name.split('=').next() == Some(old)
        });
        typed || layers.iter().any(|layer| layer.contains_key(old))
    };
    renamed(command).filter(|(old, _)| is_used(old)).collect()
}

/// `--config` must be known before the arguments can be parsed.
fn config_path(arguments: &[OsString], environment: &Layer) -> Option<OsString> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == OsStr::new("--config") {
            return words.next().cloned();
        }
        if let Some(path) = word
            .to_str()
            .and_then(|word| word.strip_prefix("--config="))
        {
            return Some(path.into());
        }
    }
    environment
        .get("config")
        .map(|setting| setting.values.concat().into())
}

/// The settings of a file, without those of single models.
fn file_layer(command: &Command, path: &Path) -> anyhow::Result<Layer> {
    let mut table = file_table(path)?;
    if table.remove(MODELS).is_some() && command.get_name() != "frontend" {
        let path = path.display();
        bail!("{path}: [[{MODELS}]] is for `homing frontend`");
    }
    table_layer(table, &path.display().to_string())
}

fn file_table(path: &Path) -> anyhow::Result<toml::Table> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
    text.parse()
        .with_context(|| format!("the configuration file {} is not TOML", path.display()))
}

fn table_layer(table: toml::Table, source: &str) -> anyhow::Result<Layer> {
    let mut layer = Layer::new();
    for (key, value) in table {
        let values = match value.is_array() {
            true => value.try_into::<Vec<toml::Value>>().unwrap_or_default(),
            false => vec![value],
        };
        let values: Option<Vec<String>> = values.into_iter().map(plain).collect();
        let Some(values) = values else {
            bail!("{source}: `{key}` must be a string, a number, a boolean or a list of them");
        };
        let source = source.to_owned();
        layer.insert(key.replace('_', "-"), Setting { values, source });
    }
    Ok(layer)
}

/// A single value as it would be typed.
fn plain(value: toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

fn flags(command: &Command, layer: &Layer) -> Vec<OsString> {
    let switches: Vec<String> = command
        .get_arguments()
        .filter(|argument| matches!(argument.get_action(), ArgAction::SetTrue))
        .filter_map(|argument| argument.get_long().map(str::to_owned))
        .collect();
    let mut flags = Vec::new();
    for (name, setting) in layer {
        for value in &setting.values {
            if !switches.contains(name) {
                flags.push(format!("--{name}={value}").into());
            } else if matches!(value.as_str(), "true" | "1") {
                flags.push(format!("--{name}").into());
            }
        }
    }
    flags
}

/// Parses one layer alone, to name its source if it is wrong.
fn check(command: &Command, layer: &Layer, flags: &[OsString]) -> anyhow::Result<()> {
    for flag in flags {
        let parsed = command
            .clone()
            .try_get_matches_from([OsStr::new("homing"), flag]);
        let Err(error) = parsed else {
            continue;
        };
        let name = flag.to_string_lossy();
        let name = name
            .trim_start_matches("--")
            .split('=')
            .next()
            .unwrap_or_default();
        let source = layer.get(name).map_or("?", |setting| &setting.source);
        let reason = error.to_string();
        let reason = reason
            .trim_start_matches("error: ")
            .lines()
            .next()
            .unwrap_or_default();
        bail!("{source}: {reason}");
    }
    Ok(())
}

fn command(name: &str) -> Command {
    let mut cli = Cli::command();
    cli.build();
    cli.find_subcommand(name)
        .expect("commands that take settings exist")
        .clone()
}

/// The options of each model that the frontend's configuration file lists under `[[models]]`, over
/// those that all models share; empty if it lists none. Reads the file.
pub(crate) fn models() -> anyhow::Result<Vec<ModelSettings>> {
    models_of(&std::env::args_os().collect::<Vec<_>>())
}

fn models_of(arguments: &[OsString]) -> anyhow::Result<Vec<ModelSettings>> {
    let Some((command, _)) = settings_command(arguments) else {
        return Ok(Vec::new());
    };
    let Some(path) = config_path(arguments, &environment_layer(&command)) else {
        return Ok(Vec::new());
    };
    let path = Path::new(&path);
    let tables = match file_table(path)?.remove(MODELS) {
        None => return Ok(Vec::new()),
        Some(toml::Value::Array(tables)) => tables,
        Some(_) => bail!("{}: write [[{MODELS}]] for each model", path.display()),
    };
    let shared = layered_arguments(arguments.to_vec())?;
    let mut models = Vec::new();
    for (index, table) in tables.into_iter().enumerate() {
        let source = format!("{}: {MODELS}[{index}]", path.display());
        let toml::Value::Table(table) = table else {
            bail!("{source}: write [[{MODELS}]] for each model");
        };
        models.push(model_settings(&command, &shared, table, &source)?);
    }
    Ok(models)
}

fn model_settings(
    command: &Command,
    shared: &[OsString],
    table: toml::Table,
    source: &str,
) -> anyhow::Result<ModelSettings> {
    let layer = table_layer(table, source)?;
    if let Some(name) = layer.keys().find(|name| !is_of_model(command, name)) {
        bail!("{source}: `{name}` is not an option of a single model");
    }
    if !layer.contains_key("model-name") {
        bail!("{source}: `model-name` is missing");
    }
    let flags = flags(command, &layer);
    check(command, &layer, &flags)?;
    let words = [shared, &flags].concat();
    let cli = Cli::try_parse_from(&words).map_err(|error| anyhow::anyhow!("{source}: {error}"))?;
    let crate::args::Command::Frontend(args) = cli.command else {
        bail!("{source}: only `homing frontend` serves several models");
    };
    Ok(ModelSettings { args: *args, words })
}

/// Whether an option says something about one model, and not about the whole process.
fn is_of_model(command: &Command, name: &str) -> bool {
    const SHARED: [&str; 2] = ["max-queue-wait", "trust-priority-header"];
    let mut arguments = command.get_arguments();
    let argument = arguments.find(|argument| argument.get_long() == Some(name));
    let heading = argument.and_then(|argument| argument.get_help_heading());
    let of_model = heading.is_some_and(|heading| OF_MODEL.contains(&heading));
    of_model && !SHARED.contains(&name)
}

/// `homing config show`.
pub(crate) fn show() -> anyhow::Result<()> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let (command, depth) =
        settings_command(&arguments).context("this command has no settings to show")?;
    let (environment, file) = layers(&command, &arguments)?;
    let typed = std::iter::once("homing".into()).chain(arguments[depth..].to_vec());
    let matches = command.clone().try_get_matches_from(typed)?;
    for argument in command.get_arguments() {
        let (Some(name), id) = (argument.get_long(), argument.get_id().as_str()) else {
            continue;
        };
        if matches!(name, "help" | "version") {
            continue;
        }
        let typed = matches.value_source(id) == Some(ValueSource::CommandLine);
        let set = |layer: &Layer| {
            let old = renamed(&command).find(|(_, new)| *new == name);
            let old = old.and_then(|(old, _)| layer.get(old));
            layer.get(name).or(old).cloned()
        };
        let (value, source) = match (typed, set(&environment), set(&file)) {
            (true, ..) => (raw_value(&matches, id), "command line".to_owned()),
            (_, Some(setting), _) | (_, _, Some(setting)) => {
                (setting.values.join(","), setting.source)
            }
            _ => (raw_value(&matches, id), "default".to_owned()),
        };
        let secret = matches!(name, "control-token" | "otlp-headers");
        let value = if secret && !value.is_empty() {
            "(set)"
        } else {
            &value
        };
        print::line(format_args!("{name:<24} {value:<32} # {source}"));
    }
    Ok(())
}

fn raw_value(matches: &clap::ArgMatches, id: &str) -> String {
    match matches.get_raw(id) {
        Some(values) => values
            .map(|value| value.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(","),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
