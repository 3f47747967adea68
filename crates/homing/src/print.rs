//! The lines that this program prints for its user. Everything else is a log.

use std::fmt::Arguments;
use std::io::Write as _;

/// A server goes on when nobody reads what it says: `homing frontend | head` must not end it.
pub(crate) fn line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Something to know while a result is made; not part of it.
pub(crate) fn note(text: Arguments<'_>) {
    eprintln!("{text}");
}

/// The same in the place of the line before, on a terminal.
pub(crate) fn again(text: Arguments<'_>) {
    eprint!("\r\x1b[2K{text}");
}

pub(crate) fn error(text: Arguments<'_>) {
    eprintln!("homing: {text}");
}
