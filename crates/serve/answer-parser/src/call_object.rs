//! A call that is a JSON object with a name and arguments.
//!
//! How soon such an object is taken for a call depends on where it stands ([`Commit`]). Until
//! then its text is held, and returned as content if it turns out to be something else. From then
//! on its arguments are passed on as they come. Keys may be in any order; arguments before the
//! name are held.

#[cfg(test)]
mod tests;

use serde::de::IgnoredAny;

use crate::arguments::ArgumentsText;
use crate::json::{ObjectScanner, Step};
use crate::output::Output;

/// When an object is taken for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commit {
    /// As soon as its name is known: a marker announced a call.
    Name,
    /// When its arguments begin, too: nothing announced it, but calls usually look so.
    Arguments,
    /// When it is complete, and has the name of a known tool, arguments and nothing else.
    Whole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    More,
    /// The character ended the object.
    Done,
    /// The object ends before the character, which was not taken. What was not part of a call
    /// was returned as content.
    Failed,
}

#[derive(Debug)]
pub(crate) struct CallObject {
    commit: Commit,
    scanner: ObjectScanner,
    /// Text that no part has, from the marker on.
    held: String,
    field: Field,
    /// The text of the key, or of the value of `name`, that is being read.
    quoted: String,
    name: Option<String>,
    arguments: Option<ArgumentsText>,
    /// Arguments that no part has.
    text: String,
    is_call: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Arguments,
    Other,
}

/// The object is no call.
struct NoCall;

impl CallObject {
    /// An opening brace was read, after `held`.
    pub(crate) fn new(commit: Commit, mut held: String) -> Self {
        held.push('{');
        Self {
            commit,
            scanner: ObjectScanner::new(),
            held,
            field: Field::Other,
            quoted: String::new(),
            name: None,
            arguments: None,
            text: String::new(),
            is_call: false,
        }
    }

    /// Whether a part was emitted.
    pub(crate) fn is_call(&self) -> bool {
        self.is_call
    }

    pub(crate) fn step(&mut self, c: char, out: &mut Output) -> Progress {
        let step = self.scanner.step(c);
        if self.take(step, c, out).is_err() {
            self.fail(out);
            return Progress::Failed;
        }
        if step == Step::End {
            return Progress::Done;
        }
        let is_value = matches!(step, Step::Value | Step::ValueEnd);
        if is_value && self.is_call && self.field != Field::Other {
            // A part has what the value says.
            self.held.clear();
        } else {
            self.held.push(c);
        }
        Progress::More
    }

    /// No more text comes.
    pub(crate) fn finish(&mut self, out: &mut Output) {
        if !self.is_call {
            out.content(&self.held);
        }
    }

    fn fail(&mut self, out: &mut Output) {
        if self.is_call && self.arguments.is_none() {
            out.arguments("{}");
        }
        out.content(&std::mem::take(&mut self.held));
    }

    fn take(&mut self, step: Step, c: char, out: &mut Output) -> Result<(), NoCall> {
        match step {
            Step::Malformed => return Err(NoCall),
            Step::Structure => {}
            Step::Key => self.quoted.push(c),
            Step::KeyEnd => {
                self.quoted.push(c);
                self.end_key()?;
            }
            Step::Value => match self.field {
                Field::Name => self.quoted.push(c),
                Field::Arguments => self.push_arguments(c, out)?,
                Field::Other => {}
            },
            Step::ValueEnd => match self.field {
                Field::Name => {
                    self.quoted.push(c);
                    self.end_name(out)?;
                }
                Field::Arguments => {
                    if let Some(arguments) = &mut self.arguments {
                        arguments.close(c, &mut self.text);
                    }
                    self.pass_arguments(out);
                }
                Field::Other => {}
            },
            Step::Comma => self.end_word(out)?,
            Step::End => {
                self.end_word(out)?;
                self.end_object(out)?;
            }
        }
        Ok(())
    }

    fn end_key(&mut self) -> Result<(), NoCall> {
        let key = std::mem::take(&mut self.quoted);
        let (field, known) = match key.as_str() {
            r#""name""# => (Field::Name, self.name.is_some()),
            r#""arguments""# | r#""parameters""# => (Field::Arguments, self.arguments.is_some()),
            _ => (Field::Other, self.commit == Commit::Whole),
        };
        self.field = if known { Field::Other } else { field };
        // Too late to be no call, a second name has no effect.
        if known && !self.is_call {
            return Err(NoCall);
        }
        Ok(())
    }

    fn end_name(&mut self, out: &mut Output) -> Result<(), NoCall> {
        let quoted = std::mem::take(&mut self.quoted);
        let name: String = serde_json::from_str(&quoted).map_err(|_| NoCall)?;
        if !out.may_call(&name) {
            return Err(NoCall);
        }
        self.name = Some(name);
        match self.commit {
            Commit::Name => self.begin_call(out),
            Commit::Arguments if self.arguments.is_some() => self.begin_call(out),
            Commit::Arguments | Commit::Whole => Ok(()),
        }
    }

    fn push_arguments(&mut self, c: char, out: &mut Output) -> Result<(), NoCall> {
        if self.arguments.is_none() && !self.is_call && self.commit != Commit::Name {
            if !matches!(c, '{' | '"') {
                return Err(NoCall);
            }
            if self.commit == Commit::Arguments && self.name.is_some() {
                self.begin_call(out)?;
            }
        }
        let arguments = self.arguments.get_or_insert_with(ArgumentsText::new);
        arguments.push(c, &mut self.text);
        self.pass_arguments(out);
        Ok(())
    }

    /// Ends a value that ends before what follows it.
    fn end_word(&mut self, out: &mut Output) -> Result<(), NoCall> {
        match self.field {
            // A name that is no string.
            Field::Name if self.name.is_none() => return Err(NoCall),
            Field::Arguments => {
                if let Some(arguments) = &mut self.arguments {
                    arguments.end(&mut self.text);
                }
                self.pass_arguments(out);
            }
            Field::Name | Field::Other => {}
        }
        self.field = Field::Other;
        Ok(())
    }

    fn end_object(&mut self, out: &mut Output) -> Result<(), NoCall> {
        if !self.is_call {
            let whole = self.commit == Commit::Whole
                && self.arguments.is_some()
                && self.text.trim_start().starts_with('{')
                && self.name.as_ref().is_some_and(|name| out.knows(name));
            if !whole {
                return Err(NoCall);
            }
            self.begin_call(out)?;
        }
        if self.arguments.is_none() {
            out.arguments("{}");
        }
        Ok(())
    }

    /// Emits the name, and arguments that came before it.
    fn begin_call(&mut self, out: &mut Output) -> Result<(), NoCall> {
        if self.arguments.is_some() && serde_json::from_str::<IgnoredAny>(&self.text).is_err() {
            return Err(NoCall);
        }
        let Some(name) = &self.name else {
            return Err(NoCall);
        };
        out.call(name.clone());
        self.is_call = true;
        self.held.clear();
        self.pass_arguments(out);
        Ok(())
    }

    fn pass_arguments(&mut self, out: &mut Output) {
        if self.is_call {
            out.arguments(&self.text);
            self.text.clear();
        }
    }
}
