//! Bugs that the search for faults must find, each a change to one place of the sources.

use anyhow::ensure;

/// A bug.
#[derive(Debug)]
pub(super) struct Bug {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    /// What the bug replaces; occurs once in the file.
    correct: &'static str,
    wrong: &'static str,
}

impl Bug {
    /// The file's text with the bug in it.
    pub(super) fn plant(&self, text: &str) -> anyhow::Result<String> {
        let Self {
            name,
            file,
            correct,
            wrong,
        } = self;
        ensure!(
            text.matches(correct).count() == 1,
            "{file} has changed where {name} belongs: adapt xtask/src/chaos/bugs.rs"
        );
        Ok(text.replace(correct, wrong))
    }
}

pub(super) const BUGS: [Bug; 6] = [
    // A placement whose worker broke off is never released.
    Bug {
        name: "lost-release",
        file: "crates/serve/frontend/src/drive.rs",
        correct: "traced::failed(&mut leg.exchange, &error);
            drop(leg);",
        wrong: "traced::failed(&mut leg.exchange, &error);
            std::mem::forget(leg.placement);",
    },
    // A worker that continues an answer repeats the last token.
    Bug {
        name: "repeated-token",
        file: "crates/serve/frontend/src/journey.rs",
        correct: "self.request.answered = answered.into();",
        wrong: "self.request.answered = answered[..answered.len().saturating_sub(1)].into();",
    },
    // A gap in a worker's events is not noticed.
    Bug {
        name: "missed-snapshot",
        file: "crates/serve/router/src/feed.rs",
        correct: "if batch.sequence > expected {
            return self.wait_from(batch);
        }",
        wrong: "",
    },
    // A slot is released when the client has read the answer, not when the engine is done.
    Bug {
        name: "slot-until-read",
        file: "crates/serve/frontend/src/drive.rs",
        correct: "drop(leg);
        drop(running);
        self.reply.put(last, self.books.times)
",
        wrong: "self.reply.put(last, self.books.times)?;
        let read = self.reply.read_to_the_end().await;
        drop((leg, running));
        read
",
    },
    // A prompt that waits for its siblings is not notified when one has ended.
    Bug {
        name: "forgotten-sibling",
        file: "crates/serve/frontend/src/drive.rs",
        correct: "if self.placed || others == 0 {",
        wrong: "if self.placed && others == usize::MAX {",
    },
    // An answer that nobody reads is never cancelled.
    Bug {
        name: "endless-patience",
        file: "crates/serve/frontend/src/reply.rs",
        correct: "tokio::time::timeout_at(oldest + self.lag, self.taken()).await;
            if taken.is_err()",
        wrong: "self.taken().await;
            if taken != ()",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository;

    #[test]
    fn every_bug_has_its_place() {
        for bug in &BUGS {
            let text = std::fs::read_to_string(repository::root().join(bug.file)).unwrap();
            assert_ne!(bug.plant(&text).unwrap(), text);
        }
    }
}
