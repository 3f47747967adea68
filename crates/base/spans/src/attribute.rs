//! What spans say besides names and times.

/// The longest text that is kept, in bytes: clients choose some of them.
const LONGEST_TEXT: usize = 256;
/// Most texts of a list.
const MOST_TEXTS: usize = 16;

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    Texts(Vec<String>),
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u16> for Value {
    fn from(number: u16) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(bounded(text.to_owned()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(bounded(text))
    }
}

impl FromIterator<String> for Value {
    fn from_iter<T: IntoIterator<Item = String>>(texts: T) -> Self {
        Self::Texts(texts.into_iter().take(MOST_TEXTS).map(bounded).collect())
    }
}

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_TEXT));
    text
}

/// Values under names that the code chooses, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes(Vec<(&'static str, Value)>);

impl Attributes {
    /// Sets a value, in place of an earlier one.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.0.push((name, value)),
        }
        self
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        let mut found = self.0.iter().filter(|(known, _)| *known == name);
        found.next().map(|(_, value)| value)
    }
}

impl IntoIterator for Attributes {
    type Item = (&'static str, Value);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
