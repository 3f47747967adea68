//! The value of `arguments`, as the text of an object.
//!
//! An object is passed on as the model wrote it. Small models write a string that holds the
//! object: its text is unescaped as it comes. `null` and an empty string stand for no arguments.
//! Any other value is passed on as it is, for the client to reject.

#[cfg(test)]
mod tests;

/// Takes a JSON value character by character.
#[derive(Debug)]
pub(crate) struct ArgumentsText {
    form: Form,
}

#[derive(Debug)]
enum Form {
    Start,
    /// An object or an array.
    Container,
    /// A string of which only white space was read. `raw` is all of it, `text` what it says.
    StringStart {
        raw: String,
        text: String,
        unescape: Unescape,
    },
    /// A string that holds an object.
    Escaped(Unescape),
    /// Another string.
    String,
    /// A number, `true`, `false`, `null`.
    Word(String),
    Ended,
}

impl ArgumentsText {
    pub(crate) fn new() -> Self {
        Self { form: Form::Start }
    }

    /// Takes a character of the value, not the last one of a string or a container.
    pub(crate) fn push(&mut self, c: char, to: &mut String) {
        let next = match &mut self.form {
            Form::Start => match c {
                '"' => Form::StringStart {
                    raw: String::from(c),
                    text: String::new(),
                    unescape: Unescape::default(),
                },
                '{' | '[' => {
                    to.push(c);
                    Form::Container
                }
                _ => Form::Word(String::from(c)),
            },
            Form::Container | Form::String => {
                to.push(c);
                return;
            }
            Form::Escaped(unescape) => {
                unescape.push(c, to);
                return;
            }
            Form::Word(word) => {
                word.push(c);
                return;
            }
            Form::StringStart {
                raw,
                text,
                unescape,
            } => {
                raw.push(c);
                unescape.push(c, text);
                // Only the newest character can be something else than white space.
                match text.chars().next_back() {
                    None => return,
                    Some(last) if last.is_whitespace() => return,
                    Some('{') => {
                        to.push_str(text);
                        Form::Escaped(std::mem::take(unescape))
                    }
                    Some(_) => {
                        to.push_str(raw);
                        Form::String
                    }
                }
            }
            Form::Ended => return,
        };
        self.form = next;
    }

    /// Takes the last character of a string or a container.
    pub(crate) fn close(&mut self, c: char, to: &mut String) {
        match &mut self.form {
            Form::Container | Form::String => to.push(c),
            Form::StringStart { .. } => to.push_str("{}"),
            Form::Escaped(unescape) => unescape.finish(to),
            Form::Start | Form::Word(_) | Form::Ended => {}
        }
        self.form = Form::Ended;
    }

    /// The value has ended before the character that follows it.
    pub(crate) fn end(&mut self, to: &mut String) {
        if let Form::Word(word) = &self.form {
            to.push_str(if word == "null" { "{}" } else { word });
        }
        self.form = Form::Ended;
    }
}

/// Resolves the escapes of a JSON string.
#[derive(Debug, Default)]
struct Unescape {
    state: Escape,
    /// The first half of a surrogate pair.
    high: Option<u32>,
}

#[derive(Debug, Default)]
enum Escape {
    #[default]
    None,
    Backslash,
    /// After `\u`: how many digits were read, and their value.
    Unicode {
        digits: u8,
        value: u32,
    },
}

impl Unescape {
    fn push(&mut self, c: char, to: &mut String) {
        match self.state {
            Escape::None if c == '\\' => self.state = Escape::Backslash,
            Escape::None => {
                self.finish(to);
                to.push(c);
            }
            Escape::Backslash if c == 'u' => {
                self.state = Escape::Unicode {
                    digits: 0,
                    value: 0,
                };
            }
            Escape::Backslash => {
                self.finish(to);
                self.state = Escape::None;
                to.push(match c {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    other => other,
                });
            }
            Escape::Unicode { digits, value } => match c.to_digit(16) {
                Some(digit) if digits == 3 => {
                    self.state = Escape::None;
                    self.unit(value * 16 + digit, to);
                }
                Some(digit) => {
                    self.state = Escape::Unicode {
                        digits: digits + 1,
                        value: value * 16 + digit,
                    };
                }
                None => {
                    self.finish(to);
                    self.state = Escape::None;
                    to.push(char::REPLACEMENT_CHARACTER);
                    to.push(c);
                }
            },
        }
    }

    /// Takes a UTF-16 code unit.
    fn unit(&mut self, unit: u32, to: &mut String) {
        if let Some(high) = self.high.take() {
            if (0xdc00..0xe000).contains(&unit) {
                let pair = 0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00);
                to.push(char::from_u32(pair).unwrap_or(char::REPLACEMENT_CHARACTER));
                return;
            }
            to.push(char::REPLACEMENT_CHARACTER);
        }
        if (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
        } else {
            to.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
    }

    /// A first half without a second one is no character.
    fn finish(&mut self, to: &mut String) {
        if self.high.take().is_some() {
            to.push(char::REPLACEMENT_CHARACTER);
        }
    }
}
