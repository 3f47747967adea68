//! Where keys and values of a JSON object begin and end, one character at a time.
//!
//! Only the outermost object's grammar is checked. A value inside is followed by its brackets and
//! quotes alone: a counter suffices, and a value that a model wrote almost right still ends where
//! it should. A `<` outside of strings ends a value all the same, as a tag after one that was cut
//! off.

#[cfg(test)]
mod tests;

pub(crate) const fn is_white(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// What a character is within an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// White space, a colon.
    Structure,
    Key,
    /// The last character of a key.
    KeyEnd,
    Value,
    /// The last character of a string, an object or an array. Other values end before the comma,
    /// white space or brace that follows.
    ValueEnd,
    Comma,
    /// The brace that closes the object.
    End,
    /// Not possible here. The scanner must not be used any more.
    Malformed,
}

/// Scans an object after its opening brace.
#[derive(Debug)]
pub(crate) struct ObjectScanner {
    state: State,
}

#[derive(Debug)]
enum State {
    FirstKey,
    NextKey,
    Key(Quoted),
    Colon,
    ValueStart,
    String(Quoted),
    Container(Container),
    /// A number, `true`, `false`, `null`.
    Word,
    AfterValue,
}

impl ObjectScanner {
    pub(crate) fn new() -> Self {
        Self {
            state: State::FirstKey,
        }
    }

    pub(crate) fn step(&mut self, c: char) -> Step {
        let (next, step) = match &mut self.state {
            State::Key(quoted) => match quoted.step(c) {
                true => (State::Colon, Step::KeyEnd),
                false => return Step::Key,
            },
            State::String(quoted) => match quoted.step(c) {
                true => (State::AfterValue, Step::ValueEnd),
                false => return Step::Value,
            },
            State::Container(container) => match container.step(c) {
                Inside::More => return Step::Value,
                Inside::End => (State::AfterValue, Step::ValueEnd),
                Inside::Cut => return Step::Malformed,
            },
            State::Word => match c {
                '0'..='9' | 'a'..='z' | 'A'..='Z' | '+' | '-' | '.' => return Step::Value,
                _ => return self.after_value(c),
            },
            State::AfterValue => return self.after_value(c),
            _ if is_white(c) => return Step::Structure,
            State::FirstKey => match c {
                '"' => (State::Key(Quoted::default()), Step::Key),
                '}' => (State::AfterValue, Step::End),
                _ => return Step::Malformed,
            },
            State::NextKey => match c {
                '"' => (State::Key(Quoted::default()), Step::Key),
                _ => return Step::Malformed,
            },
            State::Colon => match c {
                ':' => (State::ValueStart, Step::Structure),
                _ => return Step::Malformed,
            },
            State::ValueStart => match c {
                '"' => (State::String(Quoted::default()), Step::Value),
                '{' | '[' => (State::Container(Container::new()), Step::Value),
                '0'..='9' | '-' | 'a'..='z' => (State::Word, Step::Value),
                _ => return Step::Malformed,
            },
        };
        self.state = next;
        step
    }

    fn after_value(&mut self, c: char) -> Step {
        let (next, step) = match c {
            ',' => (State::NextKey, Step::Comma),
            '}' => (State::AfterValue, Step::End),
            _ if is_white(c) => (State::AfterValue, Step::Structure),
            _ => return Step::Malformed,
        };
        self.state = next;
        step
    }
}

/// A string after its opening quote.
#[derive(Debug, Default)]
struct Quoted {
    escaped: bool,
}

impl Quoted {
    /// Whether the string ends with this character.
    fn step(&mut self, c: char) -> bool {
        if self.escaped {
            self.escaped = false;
            return false;
        }
        self.escaped = c == '\\';
        c == '"'
    }
}

/// What a character is within an object or an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    More,
    /// The closing bracket.
    End,
    /// Not possible here; the character was not taken.
    Cut,
}

/// An object or an array after its opening bracket.
#[derive(Debug)]
pub(crate) struct Container {
    depth: usize,
    string: Option<Quoted>,
}

impl Container {
    pub(crate) fn new() -> Self {
        Self {
            depth: 1,
            string: None,
        }
    }

    pub(crate) fn step(&mut self, c: char) -> Inside {
        if let Some(quoted) = &mut self.string {
            if quoted.step(c) {
                self.string = None;
            }
            return Inside::More;
        }
        match c {
            '"' => self.string = Some(Quoted::default()),
            '{' | '[' => self.depth += 1,
            '}' | ']' => self.depth -= 1,
            '<' => return Inside::Cut,
            _ => {}
        }
        match self.depth {
            0 => Inside::End,
            _ => Inside::More,
        }
    }
}
