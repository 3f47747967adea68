//! The few lines this program says to a person. Everything else is a log.

use std::fmt::Arguments;

#[expect(clippy::print_stdout, reason = "the one place that talks to a person")]
pub(crate) fn line(text: Arguments<'_>) {
    println!("{text}");
}

pub(crate) fn error(text: Arguments<'_>) {
    eprintln!("homing: {text}");
}

/// Something about the run itself, kept apart from its results.
pub(crate) fn note(text: Arguments<'_>) {
    eprintln!("{text}");
}

/// Replaces the last status on a terminal.
pub(crate) fn status(text: Arguments<'_>) {
    eprint!("\r\x1b[2K{text}");
}
