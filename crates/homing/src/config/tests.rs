//! Precedence, blame, and the generated reference.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;

use clap::Parser as _;
use expect_test::{expect, expect_file};

use super::*;
use crate::args::DemoArgs;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn setting(value: &str, source: &str) -> Setting {
    Setting {
        values: vec![value.to_owned()],
        source: source.to_owned(),
    }
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

fn demo(arguments: Vec<OsString>) -> DemoArgs {
    match Cli::try_parse_from(arguments).unwrap().command {
        crate::args::Command::Demo(args) => *args,
        crate::args::Command::Learning(_)
        | crate::args::Command::Epp(_)
        | crate::args::Command::Frontend(_)
        | crate::args::Command::Worker(_)
        | crate::args::Command::Model { .. }
        | crate::args::Command::Calibrate(_)
        | crate::args::Command::Loadgen(_)
        | crate::args::Command::Sweep(_)
        | crate::args::Command::Replay(_)
        | crate::args::Command::Dashboards(_)
        | crate::args::Command::Doctor(_)
        | crate::args::Command::Config { .. } => panic!("not the demo"),
    }
}

#[test]
fn the_command_line_wins_over_the_environment_over_the_file() {
    let file = file("workers = 5\nhttp-port = 1\nno_load = true\n");
    let layer = file_layer(&command("demo"), file.path()).unwrap();
    let environment = Layer::from([("http-port".to_owned(), setting("2", "HOMING_HTTP_PORT"))]);
    let mut arguments = words("homing demo");
    arguments.extend(flags(&command("demo"), &layer));
    arguments.extend(flags(&command("demo"), &environment));
    arguments.extend(words("--console-port 3"));
    let args = demo(arguments.clone());
    assert_eq!(
        (args.workers, args.http_port, args.console_port),
        (Some(5), 2, 3)
    );
    assert!(args.load.no_load);
    arguments.extend(words("--http-port=9"));
    assert_eq!(demo(arguments).http_port, 9);
}

#[test]
fn a_bad_value_is_blamed_on_its_source() {
    let layer = Layer::from([("http-port".to_owned(), setting("many", "HOMING_HTTP_PORT"))]);
    let error = check(&command("demo"), &layer, &flags(&command("demo"), &layer)).unwrap_err();
    expect!["HOMING_HTTP_PORT: invalid value 'many' for '--http-port <HTTP_PORT>': invalid digit found in string"]
        .assert_eq(&error.to_string());
    let layer = Layer::from([("wokers".to_owned(), setting("3", "homing.toml"))]);
    let error = check(&command("demo"), &layer, &flags(&command("demo"), &layer)).unwrap_err();
    expect!["homing.toml: unexpected argument '--wokers' found"].assert_eq(&error.to_string());
}

#[test]
fn a_file_that_is_not_there_or_not_toml_is_named() {
    let missing = file_layer(&command("demo"), Path::new("no-such-file.toml")).unwrap_err();
    assert!(missing.to_string().contains("no-such-file.toml"));
    let broken = file("a = [");
    assert!(
        file_layer(&command("demo"), broken.path())
            .unwrap_err()
            .to_string()
            .contains("is not TOML")
    );
    let nested = file("[table]\na = 1\n");
    assert!(
        file_layer(&command("demo"), nested.path())
            .unwrap_err()
            .to_string()
            .contains("`table`")
    );
}

/// What a frontend with this configuration file makes of its models.
fn models(text: &str) -> anyhow::Result<Vec<ModelSettings>> {
    let file = file(text);
    let mut arguments = words("homing frontend --queue-limit 7 --config");
    arguments.push(file.path().into());
    models_of(&arguments)
}

#[test]
fn models_have_options_of_their_own_over_the_shared_ones() {
    assert_eq!(models("http-port = 1").unwrap().len(), 0);
    let found = models(
        "max-context-tokens = 100\nqueue-limit = 5\n\
         [[models]]\nmodel-name = \"a\"\nupstream = [\"vllm=http://h:1\", \"vllm=http://h:2\"]\n\
         adapter = \"sql\"\n\
         [[models]]\nmodel_name = \"b\"\nworkers = \"http://h:3\"\nmax_context_tokens = 50\n",
    )
    .unwrap();
    let [a, b] = &found[..] else {
        panic!("{} models", found.len());
    };
    assert_eq!(a.args.model.model_name.as_deref(), Some("a"));
    assert_eq!(a.args.upstream.upstreams.len(), 2);
    assert_eq!(a.args.upstream.adapters, ["sql"]);
    assert_eq!(a.args.blocks.max_context_tokens, Some(100));
    assert_eq!(a.args.routing.queue_limit, 7, "typed");
    assert_eq!(b.args.workers, ["http://h:3"]);
    assert_eq!(b.args.upstream.upstreams.len(), 0);
    assert_eq!(b.args.blocks.max_context_tokens, Some(50));
    assert_ne!(a.words, b.words);
}

#[test]
fn a_model_that_makes_no_sense_is_named() {
    for (text, words) in [
        (
            "[[models]]\nworkers = \"http://h:1\"\n",
            "`model-name` is missing",
        ),
        (
            "[[models]]\nhttp-port = 1\n",
            "models[0]: `http-port` is not an option of a single model",
        ),
        (
            "[[models]]\nmodel-name = \"a\"\n[[models]]\nwokers = 1\n",
            "models[1]: `wokers`",
        ),
        ("models = 3", "write [[models]] for each model"),
        (
            "[[models]]\nmodel-name = \"a\"\nkv-cache-block-size = \"x\"\n",
            "models[0]: invalid value",
        ),
        (
            "[[models]]\nmodel-name = { a = 1 }\n",
            "`model-name` must be a string",
        ),
    ] {
        let error = models(text).err().map(|error| format!("{error:#}"));
        assert!(
            error.as_ref().is_some_and(|error| error.contains(words)),
            "{text}: {error:?}"
        );
    }
    let file = file("[[models]]\nmodel-name = \"a\"\n");
    let demo = file_layer(&command("demo"), file.path()).unwrap_err();
    assert!(demo.to_string().contains("is for `homing frontend`"));
}

#[test]
fn dynamo_names_mean_our_options() {
    assert_eq!(
        variables("router-mode"),
        ["HOMING_ROUTER_MODE", "DYN_ROUTER_MODE"]
    );
    assert_eq!(variables("seed"), ["HOMING_SEED"]);
    let commands = ["demo", "frontend"].map(command);
    for (option, _) in OTHER_NAMES {
        let has = |command: &Command| {
            let mut arguments = command.get_arguments();
            arguments.any(|argument| argument.get_long() == Some(option))
        };
        assert!(commands.iter().any(has), "{option}");
    }
}

#[test]
fn the_config_file_is_found_however_it_is_written() {
    let none = Layer::new();
    assert_eq!(
        config_path(&words("homing demo --config a.toml"), &none),
        Some("a.toml".into())
    );
    assert_eq!(
        config_path(&words("homing demo --config=b.toml"), &none),
        Some("b.toml".into())
    );
    let environment = Layer::from([("config".to_owned(), setting("c.toml", "HOMING_CONFIG"))]);
    assert_eq!(
        config_path(&words("homing demo"), &environment),
        Some("c.toml".into())
    );
    assert_eq!(config_path(&words("homing demo"), &none), None);
}

#[test]
fn an_option_goes_by_its_old_name_too() {
    let frontend = command("frontend");
    let matches = |line: &str| frontend.clone().get_matches_from(words(line));
    for line in [
        "homing --engine vllm=http://a:1",
        "homing --upstream=vllm=http://a:1",
    ] {
        let values = matches(line);
        assert_eq!(values.get_raw("upstreams").unwrap().count(), 1, "{line}");
    }
    let file = file("engine = \"vllm=http://a:1\"\nengine-api-key-env = \"KEY\"\n");
    let layer = file_layer(&command("demo"), file.path()).unwrap();
    let set = flags(&frontend, &layer);
    assert!(check(&frontend, &layer, &set).is_ok());
    let none = Layer::new();
    assert_eq!(outdated(&frontend, &[], &[&none, &layer]), RENAMED);
    let typed = words("--http-port 1 --engine=vllm=http://a:1");
    assert_eq!(outdated(&frontend, &typed, &[&none]), RENAMED[..1]);
    let typed = words("--upstream vllm=http://a:1");
    assert_eq!(outdated(&frontend, &typed, &[&none]), []);
    // Elsewhere the name means what computes.
    let typed = words("--engine llama");
    assert_eq!(outdated(&command("demo"), &typed, &[&layer]), []);
}

/// `docs/config.md` is generated: `cargo xtask codegen` rewrites it.
#[test]
fn the_reference_is_fresh() {
    let mut page = String::from(
        "# Configuration\n\n\
         Generated from the command line's definitions by `cargo xtask codegen`.\n\n\
         Sources, strongest first: command line, environment, configuration file (`--config FILE`, TOML,\n\
         one `name = value` per option), default. `homing config show` (`show-frontend`, `show-epp`,\n\
         `show-worker`) prints what is in force and where each value comes from.\n",
    );
    for (title, name) in [
        ("homing demo", "demo"),
        ("homing frontend", "frontend"),
        ("homing epp", "epp"),
        ("homing worker", "worker"),
    ] {
        write!(page, "\n# `{title}`\n").unwrap();
        describe(&command(name), &mut page);
    }
    expect_file!["../../../../docs/config.md"].assert_eq(&page);
}

fn describe(command: &Command, page: &mut String) {
    let mut heading = "";
    for argument in command.get_arguments() {
        let (Some(name), Some(help)) = (argument.get_long(), argument.get_help()) else {
            continue;
        };
        if matches!(name, "help" | "version") {
            continue;
        }
        let group = argument.get_help_heading().unwrap_or("General");
        if group != heading {
            heading = group;
            write!(
                page,
                "\n## {group}\n\n| option | environment | default | meaning |\n|---|---|---|---|\n"
            )
            .unwrap();
        }
        let variables: Vec<_> = variables(name)
            .iter()
            .map(|name| format!("`{name}`"))
            .collect();
        let default: Vec<_> = argument
            .get_default_values()
            .iter()
            .map(|value| format!("`{}`", value.to_string_lossy()))
            .collect();
        writeln!(
            page,
            "| `--{name}` | {} | {} | {help} |",
            variables.join(", "),
            default.join(" ")
        )
        .unwrap();
    }
}
