//! Chat requests of a given size, in phrases of the repository's articles.
//!
//! Phrases keep the words' usual neighbours, so that tokens have their usual length; they are drawn
//! anew for every text, so that no two texts share more than a phrase.

use std::io;
use std::path::Path;

use contract::random::Random;

/// Consecutive words of an article.
const PHRASE: usize = 12;
/// What a turn of a conversation adds: an answer and the next question.
const ANSWER_BYTES: usize = 400;
const QUESTION_BYTES: usize = 200;
/// Turns of a conversation that are measured, after its first.
const TURNS: usize = 8;

/// Which requests are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Of a body, about.
    pub(crate) bytes: usize,
    /// Later turns of conversations, rather than texts that were never seen.
    pub(crate) warm: bool,
    pub(crate) requests: usize,
}

/// What is sent before, unmeasured, and what is measured.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    pub(crate) before: Vec<String>,
    pub(crate) measured: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Texts {
    words: Vec<String>,
    random: Random,
}

impl Texts {
    /// From the folder of articles.
    pub(crate) fn read(corpus: &Path, seed: u64) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(corpus)? {
            files.push(entry?.path());
        }
        files.retain(|path| path.is_file());
        files.sort();
        let mut words = Vec::new();
        for file in files {
            let text = std::fs::read_to_string(file)?;
            // None that JSON would have to escape.
            let plain = text
                .split_whitespace()
                .filter(|word| !word.contains(['"', '\\']));
            words.extend(plain.map(str::to_owned));
        }
        let random = Random::new(seed);
        Ok(Self { words, random })
    }

    pub(crate) fn bodies(&mut self, model: &str, load: Load) -> Bodies {
        if !load.warm {
            let mut cold = |count| {
                let texts = (0..count).map(|_| body(model, &[self.text(load.bytes)]));
                texts.collect()
            };
            return Bodies {
                before: cold(4),
                measured: cold(load.requests),
            };
        }
        let first = load
            .bytes
            .saturating_sub(TURNS / 2 * (ANSWER_BYTES + QUESTION_BYTES));
        let count = load.requests.div_ceil(TURNS);
        let mut conversations: Vec<Vec<String>> =
            (0..count).map(|_| vec![self.text(first)]).collect();
        let mut bodies = Bodies::default();
        for turns in &conversations {
            bodies.before.push(body(model, turns));
        }
        for number in 0..load.requests {
            let turns = &mut conversations[number % count];
            turns.push(self.text(ANSWER_BYTES));
            turns.push(self.text(QUESTION_BYTES));
            bodies.measured.push(body(model, turns));
        }
        bodies
    }

    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::with_capacity(bytes + 200);
        while text.len() < bytes {
            let from = self.random.below(self.words.len() - PHRASE);
            for word in &self.words[from..from + PHRASE] {
                text.push_str(word);
                text.push(' ');
            }
        }
        text
    }

    /// Pauses between requests that come at random, so many a second.
    pub(crate) fn pauses(&mut self, rate: f64, count: usize) -> Vec<f64> {
        let pause = |_| -(1.0 - self.random.unit()).ln() / rate;
        (0..count).map(pause).collect()
    }
}

/// A request whose messages are a user's and an assistant's by turns.
fn body(model: &str, turns: &[String]) -> String {
    let messages: Vec<String> = turns
        .iter()
        .enumerate()
        .map(|(place, text)| {
            let role = ["user", "assistant"][place % 2];
            format!(r#"{{"role":"{role}","content":"{text}"}}"#)
        })
        .collect();
    format!(
        r#"{{"model":"{model}","stream":true,"stream_options":{{"include_usage":true}},"max_tokens":16,"messages":[{}]}}"#,
        messages.join(",")
    )
}
