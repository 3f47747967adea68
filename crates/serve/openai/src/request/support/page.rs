//! The pages of `docs/` that list an API's fields, for the tests that keep them fresh.

use std::fmt::Write as _;

use super::{Field, Neutral};

/// An object of a request: its path, with a full stop, its fields without an effect, and those with
/// one. The body's path is empty.
pub(crate) type Place = (&'static str, &'static [Field], &'static [&'static str]);

/// The page that begins with `about`; the body is that of `endpoint`.
pub(crate) fn page(about: &str, endpoint: &str, places: &[Place]) -> String {
    let mut acting = String::new();
    let mut table = String::from("| field | accepted value | |\n|---|---|---|\n");
    for (path, fields, members) in places {
        // What holds for one kind of object alone, named in brackets, is in the table only.
        if !path.contains('(') {
            let names: Vec<String> = members
                .iter()
                .map(|name| format!("`{}`", name.trim_start_matches("r#")))
                .collect();
            let title = match path.trim_end_matches('.') {
                "" => endpoint,
                path => path,
            };
            let _ = writeln!(acting, "- `{title}`: {}.", names.join(", "));
        }
        for field in *fields {
            let about = match matches!(field.neutral, Neutral::Any) {
                true => field.about.to_owned(),
                false => format!("not supported: {}", field.about),
            };
            let accepted = field.neutral.describe();
            let _ = writeln!(table, "| `{path}{}` | {accepted} | {about} |", field.name);
        }
    }
    format!("{about}\n{acting}\n## Fields without an effect\n\n{table}")
}

/// Fails if a field is listed twice, or listed and acted on.
#[track_caller]
pub(crate) fn check_listed_once(places: &[Place]) {
    for (path, fields, members) in places {
        for (index, field) in fields.iter().enumerate() {
            let twice = fields[..index].iter().any(|other| other.name == field.name);
            let acted_on = members.contains(&field.name);
            assert!(!twice && !acted_on, "{path}{}", field.name);
        }
    }
}
