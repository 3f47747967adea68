//! Markers, recognised character by character.
//!
//! No marker here contains its own first character again, except the fence of three backticks,
//! which is only looked for where it may stand. So after a mismatch the search starts over with
//! the character that did not match, and what was held is certain to be no marker.

/// The beginning of a marker that the text may end with.
#[derive(Debug, Default)]
pub(crate) struct Literal {
    held: String,
}

pub(crate) enum Match {
    /// The character continues a marker; it is held.
    Part,
    Whole(&'static str),
    /// No marker continues with the character, which was not taken. [`Literal::take`] returns
    /// what was held before it.
    No,
}

impl Literal {
    pub(crate) fn step(&mut self, c: char, among: &[&'static str]) -> Match {
        self.held.push(c);
        let mut continued = among.iter().filter(|marker| marker.starts_with(&self.held));
        match continued.next() {
            Some(&marker) if marker.len() == self.held.len() => {
                self.held.clear();
                Match::Whole(marker)
            }
            Some(_) => Match::Part,
            None => {
                self.held.pop();
                Match::No
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// What was held. The search starts over.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}
