//! What an examination found, one line for each point.

use std::fmt;

/// How a point stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// It serves, but less well than it could.
    Doubtful,
    /// It cannot be told.
    Unknown,
    /// It will not serve, or serve wrongly.
    Bad,
}

impl Verdict {
    fn as_str(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Doubtful => "warning",
            Self::Unknown => "-",
            Self::Bad => "FAILED",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub verdict: Verdict,
    pub point: &'static str,
    pub found: String,
    /// What would help; may be empty.
    pub help: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    /// Whether the engine can be trusted with traffic.
    pub fn are_good(&self) -> bool {
        self.0.iter().all(|one| one.verdict != Verdict::Bad)
    }

    pub(super) fn good(&mut self, point: &'static str, found: String) {
        self.push(Verdict::Good, point, found, "");
    }

    pub(super) fn doubtful(&mut self, point: &'static str, found: String, help: &str) {
        self.push(Verdict::Doubtful, point, found, help);
    }

    pub(super) fn unknown(&mut self, point: &'static str, found: String, help: &str) {
        self.push(Verdict::Unknown, point, found, help);
    }

    pub(super) fn bad(&mut self, point: &'static str, found: String, help: &str) {
        self.push(Verdict::Bad, point, found, help);
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    fn push(&mut self, verdict: Verdict, point: &'static str, found: String, help: &str) {
        self.0.push(Finding {
            verdict,
            point,
            found,
            help: help.to_owned(),
        });
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Finding {
            verdict,
            point,
            found,
            help,
        } in &self.0
        {
            writeln!(f, "  {:<8} {point:<14} {found}", verdict.as_str())?;
            if !help.is_empty() {
                writeln!(f, "  {:<8} {:<14} -> {help}", "", "")?;
            }
        }
        Ok(())
    }
}
