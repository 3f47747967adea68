//! The keyword arguments of a call in Python, as a JSON object.
//!
//! Literals only: strings, numbers, `True`, `False`, `None`, lists, tuples and dicts. What is
//! open is a stack on the heap, one byte per bracket. Numbers keep their digits.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use serde::de::IgnoredAny;

use crate::json::is_white;

/// Reads arguments after the opening parenthesis.
#[derive(Debug)]
pub(crate) struct KeywordArguments {
    json: String,
    open: Vec<Bracket>,
    state: State,
}

#[derive(Debug)]
pub(crate) enum Reading {
    More,
    /// The character was the closing parenthesis; the arguments as a JSON object.
    Done(String),
    /// Not possible here; the character was not taken.
    Malformed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    Call,
    List,
    Tuple,
    Dict,
}

#[derive(Debug)]
enum State {
    /// Before an item of the innermost bracket, or its end.
    Item,
    Keyword(String),
    /// Between a keyword and its equals sign.
    Equals,
    /// Between a key of a dict and its colon.
    Colon,
    Value,
    Text(Text),
    /// A number, `True`, `False`, `None`.
    Word(String),
    AfterItem,
}

/// A string after its opening quote.
#[derive(Debug)]
struct Text {
    quote: char,
    is_key: bool,
    escape: Escape,
}

#[derive(Debug)]
enum Escape {
    None,
    Backslash,
    /// Digits of a code: how many may come, and those that came.
    Code {
        radix: u32,
        left: u8,
        value: u32,
    },
}

impl KeywordArguments {
    pub(crate) fn new() -> Self {
        Self {
            json: String::from("{"),
            open: vec![Bracket::Call],
            state: State::Item,
        }
    }

    pub(crate) fn step(&mut self, c: char) -> Reading {
        loop {
            match self.advance(c) {
                Advance::Taken if self.open.is_empty() => {
                    return Reading::Done(std::mem::take(&mut self.json));
                }
                Advance::Taken => return Reading::More,
                Advance::Again => {}
                Advance::Malformed => return Reading::Malformed,
            }
        }
    }

    fn advance(&mut self, c: char) -> Advance {
        let innermost = self.open.last().copied().unwrap_or(Bracket::Call);
        match &mut self.state {
            State::Text(text) => {
                if text.step(c, &mut self.json) {
                    self.json.push('"');
                    self.state = match text.is_key {
                        true => State::Colon,
                        false => State::AfterItem,
                    };
                }
                Advance::Taken
            }
            State::Keyword(keyword) => match c {
                'a'..='z' | 'A'..='Z' | '_' | '0'..='9' => {
                    keyword.push(c);
                    Advance::Taken
                }
                _ => {
                    self.json.push('"');
                    self.json.push_str(keyword);
                    self.json.push('"');
                    self.state = State::Equals;
                    Advance::Again
                }
            },
            State::Word(word) => match c {
                'a'..='z' | 'A'..='Z' | '_' | '0'..='9' | '+' | '-' | '.' => {
                    word.push(c);
                    Advance::Taken
                }
                _ => match json_word(word) {
                    Some(json) => {
                        self.json.push_str(&json);
                        self.state = State::AfterItem;
                        Advance::Again
                    }
                    None => Advance::Malformed,
                },
            },
            _ if is_white(c) => Advance::Taken,
            State::Equals if c == '=' => self.expect_value(),
            State::Colon if c == ':' => self.expect_value(),
            State::Equals | State::Colon => Advance::Malformed,
            State::Value => self.begin_value(c),
            State::AfterItem if c == ',' => {
                self.state = State::Item;
                Advance::Taken
            }
            State::AfterItem => self.close(c, innermost),
            State::Item => self.begin_item(c, innermost),
        }
    }

    fn expect_value(&mut self) -> Advance {
        self.json.push_str(": ");
        self.state = State::Value;
        Advance::Taken
    }

    fn begin_item(&mut self, c: char, innermost: Bracket) -> Advance {
        if matches!(c, ')' | ']' | '}') {
            return self.close(c, innermost);
        }
        // A string ends with a quote, so an opening bracket is not the end of an item.
        if !self.json.ends_with(['{', '[']) {
            self.json.push_str(", ");
        }
        match (innermost, c) {
            (Bracket::List | Bracket::Tuple, _) => self.begin_value(c),
            (Bracket::Dict, '"' | '\'') => self.begin_text(c, true),
            (Bracket::Call, 'a'..='z' | 'A'..='Z' | '_') => {
                self.state = State::Keyword(String::from(c));
                Advance::Taken
            }
            (Bracket::Dict | Bracket::Call, _) => Advance::Malformed,
        }
    }

    fn begin_value(&mut self, c: char) -> Advance {
        let (bracket, json) = match c {
            '"' | '\'' => return self.begin_text(c, false),
            '[' => (Bracket::List, '['),
            '(' => (Bracket::Tuple, '['),
            '{' => (Bracket::Dict, '{'),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '+' | '-' | '.' => {
                self.state = State::Word(String::from(c));
                return Advance::Taken;
            }
            _ => return Advance::Malformed,
        };
        self.open.push(bracket);
        self.json.push(json);
        self.state = State::Item;
        Advance::Taken
    }

    fn begin_text(&mut self, quote: char, is_key: bool) -> Advance {
        self.json.push('"');
        self.state = State::Text(Text {
            quote,
            is_key,
            escape: Escape::None,
        });
        Advance::Taken
    }

    fn close(&mut self, c: char, innermost: Bracket) -> Advance {
        let (closing, json) = match innermost {
            Bracket::Call => (')', '}'),
            Bracket::List => (']', ']'),
            Bracket::Tuple => (')', ']'),
            Bracket::Dict => ('}', '}'),
        };
        if c != closing {
            return Advance::Malformed;
        }
        self.open.pop();
        self.json.push(json);
        self.state = State::AfterItem;
        Advance::Taken
    }
}

enum Advance {
    Taken,
    /// Only the state has changed: the character comes again.
    Again,
    Malformed,
}

impl Text {
    /// Whether the string ends with this character. What it says goes to `json`, escaped.
    fn step(&mut self, c: char, json: &mut String) -> bool {
        match self.escape {
            Escape::None if c == '\\' => self.escape = Escape::Backslash,
            Escape::None if c == self.quote => return true,
            Escape::None => push_escaped(c, json),
            Escape::Backslash => self.escape = begin_escape(c, json),
            Escape::Code { radix, left, value } => match c.to_digit(radix) {
                Some(digit) => {
                    // At most eight digits of four bits.
                    let value = value.wrapping_mul(radix).wrapping_add(digit);
                    self.escape = match left {
                        0 | 1 => {
                            push_code(value, json);
                            Escape::None
                        }
                        _ => Escape::Code {
                            radix,
                            left: left - 1,
                            value,
                        },
                    };
                }
                None => {
                    push_code(value, json);
                    self.escape = Escape::None;
                    return self.step_plain(c, json);
                }
            },
        }
        false
    }

    /// The character that ended a code too early.
    fn step_plain(&mut self, c: char, json: &mut String) -> bool {
        match c {
            '\\' => self.escape = Escape::Backslash,
            _ if c == self.quote => return true,
            _ => push_escaped(c, json),
        }
        false
    }
}

/// Takes the character after a backslash.
fn begin_escape(c: char, json: &mut String) -> Escape {
    let code = |radix, left, value| Escape::Code { radix, left, value };
    let plain = match c {
        'x' => return code(16, 2, 0),
        'u' => return code(16, 4, 0),
        'U' => return code(16, 8, 0),
        '0'..='7' => return code(8, 2, c.to_digit(8).unwrap_or(0)),
        // A line that continues.
        '\n' => return Escape::None,
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'v' => '\u{b}',
        '\\' | '\'' | '"' => c,
        // Python keeps the backslash of an escape that it does not know.
        _ => {
            push_escaped('\\', json);
            c
        }
    };
    push_escaped(plain, json);
    Escape::None
}

/// Half of a surrogate pair stays an escape, so that two of them are a character in JSON.
fn push_code(code: u32, json: &mut String) {
    match char::from_u32(code) {
        Some(c) => push_escaped(c, json),
        None if code <= 0xffff => {
            write!(json, "\\u{code:04x}").expect("a string takes any text");
        }
        None => json.push(char::REPLACEMENT_CHARACTER),
    }
}

fn push_escaped(c: char, json: &mut String) {
    match c {
        '"' => json.push_str("\\\""),
        '\\' => json.push_str("\\\\"),
        '\n' => json.push_str("\\n"),
        '\t' => json.push_str("\\t"),
        '\r' => json.push_str("\\r"),
        c if c < ' ' => {
            write!(json, "\\u{:04x}", u32::from(c)).expect("a string takes any text");
        }
        c => json.push(c),
    }
}

/// A number or a constant of Python, in JSON.
fn json_word(word: &str) -> Option<String> {
    match word {
        "True" | "true" => return Some("true".to_owned()),
        "False" | "false" => return Some("false".to_owned()),
        "None" | "null" => return Some("null".to_owned()),
        _ => {}
    }
    let digits = word.replace('_', "");
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits.strip_prefix('+').unwrap_or(&digits)),
    };
    // Python allows a number to begin or end with its point.
    let end = digits.find(['e', 'E']).unwrap_or(digits.len());
    let (mantissa, exponent) = digits.split_at(end);
    let before = if mantissa.starts_with('.') { "0" } else { "" };
    let after = if mantissa.ends_with('.') { "0" } else { "" };
    let json = format!("{sign}{before}{mantissa}{after}{exponent}");
    serde_json::from_str::<IgnoredAny>(&json)
        .is_ok()
        .then_some(json)
}
