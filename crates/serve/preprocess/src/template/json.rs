//! `tojson` as Hugging Face defines it: `json.dumps(…, ensure_ascii=False)`.
//!
//! The engine's own filter escapes for HTML, and would change what the model reads.

use std::io;

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind, Value};
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// The filter. `ensure_ascii`, `sort_keys` and `separators` are accepted and ignored.
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let mut out = Vec::new();
    let written = match options.get::<Option<usize>>("indent")? {
        Some(width) => {
            let indent = " ".repeat(width);
            let formatter = PrettyFormatter::with_indent(indent.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, PythonFormatter)),
    };
    written.map_err(|error| {
        Error::new(ErrorKind::InvalidOperation, "cannot be written as JSON").with_source(error)
    })?;
    let text = String::from_utf8(out).expect("JSON is UTF-8");
    Ok(Value::from_safe_string(text))
}

/// Python's spaces after `,` and `:`.
struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if first {
            Ok(())
        } else {
            writer.write_all(b", ")
        }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
