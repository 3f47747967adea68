//! Compares tokens with those of the `tokenizers` library, for genuine vocabularies.
//!
//! `cargo run --release -p bpe --example compare -- TOKENIZER.json... [--chars N] [--seed N]`
//!
//! For each file it makes texts of mixed scripts, code, emoji, control characters and the
//! vocabulary's own tokens, encodes them both ways, with special tokens parsed and not, and stops
//! at the first difference. Then it prints how much processor time both take for English text of
//! different words: the first time after loading, and again. A file that is not understood is a
//! failure unless `--allow-unsupported` is given.

#![expect(clippy::print_stdout, reason = "a tool for the terminal")]

mod texts;

use std::collections::HashSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use bpe::Encoder;
use rustix::time::{ClockId, clock_gettime};
use texts::{Random, Texts};
use tokenizers::Tokenizer;

struct Arguments {
    files: Vec<String>,
    characters: usize,
    seed: u64,
    allow_unsupported: bool,
}

fn main() -> ExitCode {
    let arguments = arguments();
    let words = words();
    let mut passed = true;
    for file in &arguments.files {
        match compare(file, &arguments, &words) {
            Ok(report) => println!("{report}"),
            Err(problem) => {
                println!("{file}: {problem}");
                passed = false;
            }
        }
    }
    match passed && !arguments.files.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn arguments() -> Arguments {
    let mut parsed = Arguments {
        files: Vec::new(),
        characters: 10_000_000,
        seed: 1,
        allow_unsupported: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|word| word.parse().ok());
        match word.as_str() {
            "--chars" => parsed.characters = number().expect("--chars takes a number") as usize,
            "--seed" => parsed.seed = number().expect("--seed takes a number"),
            "--allow-unsupported" => parsed.allow_unsupported = true,
            _ => parsed.files.push(word),
        }
    }
    parsed
}

/// The words of the repository's articles, each once, in order.
fn words() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the corpus is in the repository")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let mut known = HashSet::new();
    let mut words = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let new = text
            .split_whitespace()
            .filter(|word| known.insert((*word).to_owned()));
        words.extend(new.map(str::to_owned));
    }
    words
}

/// The line to print, or why the file fails.
fn compare(
    file: &str,
    arguments: &Arguments,
    words: &[String],
) -> Result<String, tokenizers::Error> {
    let json = std::fs::read(file)?;
    let (library, library_load) = timed(|| Tokenizer::from_bytes(&json));
    let mut parsing = library?;
    parsing.with_truncation(None)?;
    parsing.with_padding(None);
    let (ours, our_load) = timed(|| Encoder::read(&json));
    let ours = match ours {
        Ok(ours) => ours,
        Err(unsupported) if arguments.allow_unsupported => {
            return Ok(format!("{file}: not supported: {unsupported}"));
        }
        Err(unsupported) => return Err(format!("not supported: {unsupported}").into()),
    };
    let speed = speed(&ours, &parsing, words);
    let mut plain = parsing.clone();
    plain.set_encode_special_tokens(true);

    let added = parsing.get_added_vocabulary();
    let added: Vec<String> = added.get_vocab().keys().cloned().collect();
    let mut added = added;
    added.sort();
    let mut tokens: Vec<(u32, String)> = parsing
        .get_vocab(false)
        .into_iter()
        .map(|(text, id)| (id, shown(&text)))
        .collect();
    tokens.sort();
    let tokens: Vec<String> = tokens.into_iter().map(|(_, text)| text).collect();
    let mut texts = Texts {
        random: Random(arguments.seed),
        words,
        tokens: &tokens,
        added: &added,
    };
    let (mut characters, mut count, mut token_count) = (0, 0_usize, 0);
    let (mut our_time, mut library_time) = (Duration::ZERO, Duration::ZERO);
    while characters < arguments.characters {
        let text = texts.next();
        characters += text.chars().count();
        count += 1;
        for (library, parse_special) in [(&parsing, true), (&plain, false)] {
            let (expected, time) = timed(|| library.encode_fast(text.as_str(), false));
            library_time += time;
            let expected = expected?;
            let mut found = Vec::new();
            let ((), time) = timed(|| ours.encode(&text, parse_special, &mut found));
            our_time += time;
            token_count += found.len();
            if found != expected.get_ids() {
                let seed = arguments.seed;
                let difference = difference(&text, &found, expected.get_ids(), &parsing);
                return Err(format!(
                    "DIFFERENT in text {count} of seed {seed}, special tokens parsed: {parse_special}\n{difference}"
                )
                .into());
            }
        }
    }
    let per_character = |time: Duration| time.as_nanos() as f64 / characters as f64 / 2.0;
    Ok(format!(
        "{file}\n  equal: {characters} characters in {count} texts, {token_count} tokens twice over; \
         ns/character: {:.1}, library {:.1}\n  loading, ms: {:.0}, library {:.0}\n{speed}",
        per_character(our_time),
        per_character(library_time),
        our_load.as_secs_f64() * 1e3,
        library_load.as_secs_f64() * 1e3,
    ))
}

/// Processor time for texts of different words: each text once, and the best of many times.
fn speed(ours: &Encoder, library: &Tokenizer, words: &[String]) -> String {
    let (long, short) = words.split_at(words.len().min(LONG));
    let long = vec![long.join(" ")];
    let short: Vec<String> = short
        .chunks_exact(SHORT)
        .map(|words| words.join(" "))
        .collect();
    let our = |text: &str| {
        let mut out = Vec::new();
        timed(|| ours.encode(text, true, &mut out)).1
    };
    let librarys = |text: &str| timed(|| library.encode_fast(text, false)).1;
    let lines = [(LONG, &long), (SHORT, &short)].map(|(count, texts)| {
        let (our_first, our_best) = first_and_best(texts, our);
        let (library_first, library_best) = first_and_best(texts, librarys);
        let bytes = texts.iter().map(String::len).sum::<usize>() / texts.len().max(1);
        format!(
            "  {count} different words, {bytes} bytes, µs: first {our_first:.0}, again {our_best:.0}; \
             library: first {library_first:.0}, again {library_best:.0}",
        )
    });
    lines.join("\n")
}

const LONG: usize = 3_300;
const SHORT: usize = 150;

/// The medians over texts of the first time, and of the shortest.
fn first_and_best(texts: &[String], encode: impl Fn(&str) -> Duration) -> (f64, f64) {
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times
            .get(times.len() / 2)
            .map_or(0.0, |time| time.as_secs_f64() * 1e6)
    };
    let first = texts.iter().map(|text| encode(text)).collect();
    let best = |text: &String| (0..20).map(|_| encode(text)).min().unwrap_or_default();
    let best = texts.iter().map(best).collect();
    (median(first), median(best))
}

/// What a token's name says it stands for.
fn shown(token: &str) -> String {
    let mut bytes = Vec::new();
    match bpe::push_bytes(token, &mut bytes) {
        true => String::from_utf8_lossy(&bytes).into_owned(),
        false => token.replace('▁', " "),
    }
}

fn difference(text: &str, found: &[u32], expected: &[u32], library: &Tokenizer) -> String {
    let at = found
        .iter()
        .zip(expected)
        .take_while(|(left, right)| left == right)
        .count();
    let near = |tokens: &[u32]| {
        let range = at.saturating_sub(5)..(at + 8).min(tokens.len());
        let tokens: Vec<String> = tokens[range]
            .iter()
            .map(|&token| {
                format!(
                    "{token} {:?}",
                    library.id_to_token(token).unwrap_or_default()
                )
            })
            .collect();
        tokens.join(", ")
    };
    format!(
        "  token {at}\n  found    {}\n  expected {}\n  text {text:?}",
        near(found),
        near(expected)
    )
}

/// With the processor time of this thread.
fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let start = now();
    let made = run();
    (made, now() - start)
}
