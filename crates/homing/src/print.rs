//! The few lines this program says to a person. Everything else is a log.

use std::fmt::Arguments;

#[expect(clippy::print_stdout, reason = "the one place that talks to a person")]
pub(crate) fn line(text: Arguments<'_>) {
    println!("{text}");
}

/// Something to know while a result is made; not part of it.
pub(crate) fn note(text: Arguments<'_>) {
    eprintln!("{text}");
}

pub(crate) fn error(text: Arguments<'_>) {
    eprintln!("homing: {text}");
}
