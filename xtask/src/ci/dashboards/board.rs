//! A dashboard's JSON as the checks see it.
//!
//! Nothing is parsed into types of our own: the checks ask what Grafana would find at a
//! place, and what they do not ask about stays as it is.

use anyhow::Context;
use serde_json::Value;

/// One dashboard file.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) name: String,
    pub(super) json: Value,
}

/// One query of a panel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    pub(super) panel: &'a Value,
    pub(super) json: &'a Value,
}

impl Board {
    pub(super) fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let json = serde_json::from_str(text).with_context(|| format!("{name} is not JSON"))?;
        Ok(Self {
            name: name.to_owned(),
            json,
        })
    }

    /// Every panel in the order of the file, rows and the panels inside them included.
    pub(super) fn panels(&self) -> Vec<&Value> {
        let top = list(&self.json["panels"]);
        top.flat_map(|panel| std::iter::once(panel).chain(list(&panel["panels"])))
            .collect()
    }

    /// The panels that draw something.
    pub(super) fn charts(&self) -> impl Iterator<Item = &Value> {
        self.panels().into_iter().filter(|panel| !is_row(panel))
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = Target<'_>> {
        self.charts().flat_map(|panel| {
            list(&panel["targets"]).map(move |target| Target {
                panel,
                json: target,
            })
        })
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = &Value> {
        list(&self.json["templating"]["list"])
    }

    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.variables().any(|variable| variable["name"] == name)
    }
}

impl<'a> Target<'a> {
    pub(super) fn expression(self) -> &'a str {
        text(&self.json["expr"])
    }

    pub(super) fn legend(self) -> &'a str {
        text(&self.json["legendFormat"])
    }

    pub(super) fn place(self) -> String {
        format!("{}, {}", place(self.panel), self.json["refId"])
    }
}

pub(super) fn is_row(panel: &Value) -> bool {
    panel["type"] == "row"
}

/// How a problem names a panel.
pub(super) fn place(panel: &Value) -> String {
    format!("panel {} {}", panel["id"], panel["title"])
}

/// The elements of a list, or nothing where there is none.
pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A string, or the empty one where there is none.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The names of the variables in a text: `$name` or `${name}`.
pub(super) fn variables_in(text: &str) -> Vec<&str> {
    pieces(text).filter_map(|(_, name)| name).collect()
}

/// Puts a value in the place of every variable that `value_of` knows.
pub(super) fn substitute(text: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let mut filled = String::new();
    for (source, name) in pieces(text) {
        match name.and_then(&value_of) {
            Some(value) => filled.push_str(&value),
            None => filled.push_str(source),
        }
    }
    filled
}

/// Cuts a text at its variables; each piece comes with the name if it is one.
fn pieces(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (length, name) = leading_variable(rest).unwrap_or_else(|| (next_dollar(rest), ""));
        let (piece, after) = rest.split_at(length);
        rest = after;
        Some((piece, (!name.is_empty()).then_some(name)))
    })
}

/// Where the next variable may begin, after the first character.
fn next_dollar(text: &str) -> usize {
    let later = text.char_indices().skip(1).find(|&(_, c)| c == '$');
    later.map_or(text.len(), |(at, _)| at)
}

/// The length and the name of the variable that a text begins with.
fn leading_variable(text: &str) -> Option<(usize, &str)> {
    let after = text.strip_prefix('$')?;
    let (inside, marks) = match after.strip_prefix('{') {
        Some(inside) => (&inside[..inside.find('}')?], "${}".len()),
        None => {
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = after.find(|c| !word(c)).unwrap_or(after.len());
            (&after[..end], "$".len())
        }
    };
    (!inside.is_empty()).then_some((inside.len() + marks, inside))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Cutting loses nothing, and no name is empty or reaches beyond its braces.
        #[test]
        fn a_text_is_made_of_its_pieces(text in "[a$_{}é \\[]{0,20}") {
            let whole: String = pieces(&text).map(|(piece, _)| piece).collect();
            prop_assert_eq!(&whole, &text);
            prop_assert_eq!(substitute(&text, |_| None), text.clone());
            for name in variables_in(&text) {
                let sound = !name.is_empty() && !name.contains('}');
                prop_assert!(sound, "{}", name);
            }
        }
    }

    #[test]
    fn variables_are_found_in_both_spellings() {
        assert_eq!(
            variables_in("rate(x{job=~\"$job\"}[$__rate_interval]) > ${limit}"),
            ["job", "__rate_interval", "limit"]
        );
        assert_eq!(variables_in("a $ b ${ c $"), Vec::<&str>::new());
        assert_eq!(variables_in(""), Vec::<&str>::new());
    }

    #[test]
    fn known_variables_are_filled_and_others_stay() {
        let one = |name: &str| (name == "one").then(|| "1".to_owned());
        assert_eq!(substitute("$one ${one} $two é$one", one), "1 1 $two é1");
        assert_eq!(substitute("$ones", one), "$ones");
        assert_eq!(substitute("é", one), "é");
    }
}
