//! JSON objects of which every member is known by name, or noticed.
//!
//! A derived `Deserialize` would skip what it does not know, or fail at it without a look at its
//! value. Here an unknown member is kept as its name and a glimpse of its value, which is enough
//! to tell `"tools": []` from a tool that nobody would call.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Writes a structure of optional members that keeps the others.
macro_rules! object {
    ($(#[$about:meta])* $name:ident, $expecting:literal {
        $($(#[$doc:meta])* $field:ident: $kind:ty,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $($(#[$doc])* pub(crate) $field: Option<$kind>,)*
            pub(crate) others: $crate::request::object::Others,
        }

        impl $name {
            /// The members that have an effect, for documentation.
            #[cfg(test)]
            pub(crate) const FIELDS: &'static [&'static str] = &[$(stringify!($field)),*];
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                struct Members;

                impl<'de> serde::de::Visitor<'de> for Members {
                    type Value = $name;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($expecting)
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut members: A,
                    ) -> Result<$name, A::Error> {
                        use $crate::request::object::{Key, once, plain};

                        let mut object = $name::default();
                        while let Some(Key(key)) = members.next_key()? {
                            $(if key == const { plain(stringify!($field)) } {
                                once(&object.$field, &key)?;
                                object.$field = members.next_value()?;
                                continue;
                            })*
                            object.others.push(&key, members.next_value()?)?;
                        }
                        Ok(object)
                    }
                }

                source.deserialize_map(Members)
            }
        }
    };
}
pub(crate) use object;

/// A field's name without the `r#` that makes it one, found while compiling: a search in every request
/// for each field cost more than reading the request.
pub(crate) const fn plain(field: &str) -> &str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// A member's name, without a copy where the text allows.
pub(crate) struct Key<'a>(pub(crate) Cow<'a, str>);

/// Not derived: that would hide the name from the path of an error.
impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Name;

        impl<'de> Visitor<'de> for Name {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(name)))
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(name.to_owned())))
            }
        }

        source.deserialize_str(Name)
    }
}

/// Fails if a member was there before.
pub(crate) fn once<T, E: Error>(member: &Option<T>, key: &str) -> Result<(), E> {
    match member {
        None => Ok(()),
        Some(_) => Err(E::custom(format_args!("duplicate field `{key}`"))),
    }
}

/// The members that a structure does not know.
#[derive(Debug, Default)]
pub(crate) struct Others(Vec<(String, Glimpse)>);

impl Others {
    /// `null` asks for nothing, whatever the member is. Fails where there are too many: they
    /// would take more memory than the body.
    pub(crate) fn push<E: Error>(&mut self, key: &str, value: Glimpse) -> Result<(), E> {
        if self.0.len() == MOST_OTHERS {
            return Err(E::custom(format_args!(
                "more than {MOST_OTHERS} other fields"
            )));
        }
        if value != Glimpse::Null {
            self.0.push((name(key), value));
        }
        Ok(())
    }

    /// Drops those that are not wanted.
    pub(crate) fn retain(&mut self, mut wanted: impl FnMut(&str, &Glimpse) -> bool) {
        self.0.retain(|(name, value)| wanted(name, value));
        self.0.shrink_to_fit();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Glimpse)> {
        self.0.iter().map(|(name, value)| (&**name, value))
    }
}

/// As much of a value as it takes to see whether it asks for something.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Glimpse {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List {
        length: usize,
        /// If the first is a text.
        first: Option<String>,
    },
    Object {
        length: usize,
        /// The member `type`, if it is a text.
        kind: Option<String>,
    },
}

/// Members of one object that have no effect: more than all that are known.
const MOST_OTHERS: usize = 64;

/// Longer texts are no name of anything.
const LONGEST_NAME: usize = 64;

pub(crate) fn name(text: &str) -> String {
    text.chars().take(LONGEST_NAME).collect()
}

impl<'de> Deserialize<'de> for Glimpse {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Value;

        impl<'de> Visitor<'de> for Value {
            type Value = Glimpse;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_unit<E: Error>(self) -> Result<Glimpse, E> {
                Ok(Glimpse::Null)
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Glimpse, E> {
                Ok(Glimpse::Bool(value))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Glimpse, E> {
                Ok(Glimpse::Number(value as f64))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Glimpse, E> {
                Ok(Glimpse::Number(value as f64))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Glimpse, E> {
                Ok(Glimpse::Number(value))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Glimpse, E> {
                Ok(Glimpse::Text(name(value)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Glimpse, A::Error> {
                let first = match list.next_element()? {
                    Some(Shallow(first)) => first,
                    None => {
                        return Ok(Glimpse::List {
                            length: 0,
                            first: None,
                        });
                    }
                };
                let mut length = 1;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    length += 1;
                }
                Ok(Glimpse::List { length, first })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Glimpse, A::Error> {
                let (mut length, mut kind) = (0, None);
                while let Some(Key(key)) = members.next_key()? {
                    length += 1;
                    match &*key {
                        "type" => Shallow(kind) = members.next_value()?,
                        _ => {
                            members.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(Glimpse::Object { length, kind })
            }
        }

        source.deserialize_any(Value)
    }
}

/// A text, or nothing of interest. Does not look into lists and objects, so that a value of any
/// depth costs no stack.
pub(crate) struct Shallow(pub(crate) Option<String>);

impl<'de> Deserialize<'de> for Shallow {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Shallow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Shallow, E> {
                Ok(Shallow(Some(name(text))))
            }

            fn visit_unit<E: Error>(self) -> Result<Shallow, E> {
                Ok(Shallow(None))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Shallow, E> {
                Ok(Shallow(None))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Shallow, E> {
                Ok(Shallow(None))
            }

            fn visit_u64<E: Error>(self, _: u64) -> Result<Shallow, E> {
                Ok(Shallow(None))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Shallow, E> {
                Ok(Shallow(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Shallow, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Shallow(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Shallow, A::Error> {
                while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Shallow(None))
            }
        }

        source.deserialize_any(Text)
    }
}
