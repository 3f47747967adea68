//! What was measured: written into the folder of results, and compared when the folder is resumed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use super::arguments::{Arguments, Device};
use super::cards::{Card, Placement};
use super::vllm::{self, Installed};

const FILE: &str = "setup.json";
/// Not compared: the next card of the same name has another number and driver.
const CARDS: &str = "cards";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Setup(Value);

impl Setup {
    pub(super) fn new(arguments: &Arguments, placements: &[Placement], engine: &Installed) -> Self {
        let server = |placement: &Placement| {
            json!({
                "card": placement.card.as_ref().map(|card| &card.name),
                "options": options(&vllm::words(arguments, placement)),
            })
        };
        let mut cards: Vec<&Card> = Vec::new();
        for card in placements.iter().filter_map(|one| one.card.as_ref()) {
            if !cards.contains(&card) {
                cards.push(card);
            }
        }
        let card = |card: &&Card| {
            json!({
                "number": card.number,
                "name": card.name,
                "memory_mib": card.memory_mib,
                "driver": card.driver,
            })
        };
        Self(json!({
            "device": match arguments.device {
                Device::Cuda => "cuda",
                Device::Cpu => "cpu",
            },
            "cards": cards.iter().map(card).collect::<Vec<_>>(),
            "vllm": engine.version,
            "model": arguments.model_name(),
            "random_weights": arguments.random_weights,
            "servers": placements.iter().map(server).collect::<Vec<_>>(),
        }))
    }

    /// One line.
    pub(super) fn summary(&self) -> String {
        let Self(setup) = self;
        let servers = setup["servers"].as_array().map_or(0, Vec::len);
        let cards = setup["cards"].as_array().into_iter().flatten();
        let names: Vec<&str> = cards.filter_map(|card| card["name"].as_str()).collect();
        let place = match names.as_slice() {
            [] => "the CPU".to_owned(),
            [one] => format!("one {one}"),
            [first, ..] => format!("{} cards ({first})", names.len()),
        };
        let weights = match setup["random_weights"] == true {
            true => ", random weights",
            false => "",
        };
        format!(
            "{servers} vLLM server{} (version {}) on {place}, model {}{weights}",
            if servers == 1 { "" } else { "s" },
            setup["vllm"].as_str().unwrap_or_default(),
            setup["model"].as_str().unwrap_or_default()
        )
    }

    /// Takes a new folder, or one in which the same was measured.
    pub(super) fn open(&self, out: &Path, resume: bool) -> anyhow::Result<()> {
        let file = out.join(FILE);
        if !file.exists() {
            let is_empty = fs::read_dir(out).map_or(true, |mut entries| entries.next().is_none());
            ensure!(
                is_empty,
                "--out: {} holds something else; choose another folder",
                out.display()
            );
            fs::create_dir_all(out)?;
            return self.write(&file);
        }
        let has_results = fs::read_dir(out)?.flatten().any(|entry| {
            let plan = entry.path().join("plan.json");
            plan.exists()
        });
        if !has_results {
            // Of an attempt in which no sweep began.
            return self.write(&file);
        }
        ensure!(
            resume,
            "--out: {} holds results; --resume adds the runs that are missing",
            out.display()
        );
        let written: Value = serde_json::from_str(&fs::read_to_string(&file)?)
            .with_context(|| format!("{} cannot be read", file.display()))?;
        let fields = self.0.as_object().into_iter().flatten();
        for (name, value) in fields.filter(|(name, _)| *name != CARDS) {
            if let Some((before, now)) = difference(&written[name], value) {
                bail!(
                    "--resume: {} was measured with {name} {before}; now it is {now}",
                    out.display()
                );
            }
        }
        Ok(())
    }

    fn write(&self, file: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(&self.0)? + "\n";
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

/// A server's options with their values. The model's path is left out: results may be resumed where
/// the same model lies elsewhere.
fn options(words: &[OsString]) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    for word in words.iter().map(|word| word.to_string_lossy()) {
        match options.last_mut() {
            Some(option) if !word.starts_with("--") => *option = format!("{option} {word}"),
            _ => options.push(word.into_owned()),
        }
    }
    options.retain(|option| !option.starts_with("--model "));
    options
}

/// The innermost values that differ.
fn difference(before: &Value, now: &Value) -> Option<(Value, Value)> {
    let pairs: Vec<(&Value, &Value)> = match (before, now) {
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            before.iter().zip(now).collect()
        }
        (Value::Object(before), Value::Object(now)) if before.keys().eq(now.keys()) => {
            before.values().zip(now.values()).collect()
        }
        _ if before == now => return None,
        _ => return Some((before.clone(), now.clone())),
    };
    let mut differences = pairs.into_iter();
    differences.find_map(|(before, now)| difference(before, now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_shown_and_not_all_around_it() {
        let words = |size: &str| -> Vec<OsString> {
            let words = ["--model", "m", "--block-size", size, "--enforce-eager"];
            words.map(OsString::from).into()
        };
        let (before, now) = (options(&words("32")), options(&words("16")));
        assert_eq!(before, ["--block-size 32", "--enforce-eager"]);
        let servers = |options: &[String]| json!([{ "card": null, "options": options }]);
        let found = difference(&servers(&before), &servers(&now));
        let expected = (json!("--block-size 32"), json!("--block-size 16"));
        assert_eq!(found, Some(expected));
        assert_eq!(difference(&servers(&now), &servers(&now)), None);
    }

    #[test]
    fn only_the_same_servers_are_added_to() {
        let out = std::env::temp_dir().join(format!("homing-setup-{}", std::process::id()));
        let setup = |version: &str| Setup(json!({ "vllm": version, "servers": [] }));
        setup("0").open(&out, false).unwrap();
        setup("1").open(&out, false).unwrap();
        fs::create_dir(out.join("shared")).unwrap();
        fs::write(out.join("shared/plan.json"), "").unwrap();
        let again = setup("1").open(&out, false).unwrap_err().to_string();
        assert!(again.contains("--resume adds"), "{again}");
        setup("1").open(&out, true).unwrap();
        let other = setup("2").open(&out, true).unwrap_err().to_string();
        assert!(
            other.contains("with vllm \"1\"; now it is \"2\""),
            "{other}"
        );
        fs::remove_file(out.join(FILE)).unwrap();
        fs::write(out.join("notes"), "").unwrap();
        let foreign = setup("1").open(&out, true).unwrap_err().to_string();
        assert!(foreign.contains("something else"), "{foreign}");
        fs::remove_dir_all(&out).unwrap();
    }
}
