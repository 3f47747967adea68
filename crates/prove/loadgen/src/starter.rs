//! What conversations begin with: long texts, and a request to explain them.
//!
//! Texts come from the caller, who may have some built in, or from a [`crate::corpus`].

use std::sync::Arc;

use contract::random::mix;

const MARKER: u64 = 7;
const CLOSING: u64 = 8;

/// What the user wants to know about the text.
const CLOSINGS: [&str; 5] = [
    "Explain the main ideas of this text and how they depend on one another.",
    "Summarise this text for an engineer who is new to the subject.",
    "Which part of this text is the hardest to understand? Explain that part in detail.",
    "Describe how the things in this text work together, step by step.",
    "What are the most important figures and limits in this text, and where do they come from?",
];

/// One text that conversations begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starter {
    pub title: Arc<str>,
    pub text: Arc<str>,
}

/// Why a file cannot start a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it is empty")]
    Empty,
    #[error("it is not a text file (UTF-8)")]
    NoText,
    #[error("it is larger than 4 MiB")]
    TooLarge,
}

impl Starter {
    pub fn new(title: impl Into<Arc<str>>, text: impl Into<Arc<str>>) -> Self {
        Self {
            title: title.into(),
            text: text.into(),
        }
    }

    /// The beginning, of at most so many characters: whole paragraphs if one fits.
    pub fn cut(self, characters: usize) -> Self {
        let Some((end, _)) = self.text.char_indices().nth(characters) else {
            return self;
        };
        let text = &self.text[..end];
        let text = text.rfind("\n\n").map_or(text, |end| &text[..end]);
        Self::new(self.title, text.trim_end())
    }

    /// A file's content; its first line with words is the title.
    pub fn parse(bytes: &[u8]) -> Result<Self, Unfit> {
        let text = std::str::from_utf8(bytes)
            .ok()
            .filter(|text| !text.contains('\0'))
            .ok_or(Unfit::NoText)?;
        let title = text
            .lines()
            .map(|line| line.trim_start_matches('#').trim())
            .find(|line| !line.is_empty())
            .ok_or(Unfit::Empty)?;
        let title: String = title.chars().take(80).collect();
        Ok(Self::new(title, text.trim()))
    }

    /// The first message of a conversation. With `unique`, it begins with a line that no other
    /// conversation has, so that nothing of the text can have been cached by another.
    pub fn message(&self, seed: u64, conversation: u64, unique: bool) -> String {
        let closing = mix(seed ^ CLOSING, conversation, 0) as usize % CLOSINGS.len();
        let (text, closing) = (&self.text, CLOSINGS[closing]);
        if unique {
            let marker = mix(seed ^ MARKER, conversation, 0);
            format!("Copy {marker:016x} of this text.\n\n{text}\n\n{closing}")
        } else {
            format!("{text}\n\n{closing}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_paragraphs() {
        let starter = || Starter::new("T", "One two.\n\nThree four.\n\nFive.");
        let cut = |characters| starter().cut(characters).text.to_string();
        assert_eq!(cut(24), "One two.\n\nThree four.");
        assert_eq!(cut(12), "One two.");
        assert_eq!(cut(3), "One");
        assert_eq!(cut(1000), starter().text.to_string());
    }

    #[test]
    fn only_unique_messages_differ_from_the_start() {
        let starter = Starter::new("T", "A long text.");
        let start = |conversation, unique| {
            let message = starter.message(7, conversation, unique);
            message.chars().take(12).collect::<String>()
        };
        assert_eq!(start(1, false), start(2, false));
        assert_ne!(start(1, true), start(2, true));
        assert_eq!(starter.message(7, 1, true), starter.message(7, 1, true));
    }
}
