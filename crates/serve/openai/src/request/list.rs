//! Lists that become what they mean as they are read.
//!
//! Whoever wants a list gets it element by element: many small elements then take little memory,
//! and a list that is too long ends where it is read.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// What the elements of a list become.
pub(crate) trait Gather: Default {
    type Element: DeserializeOwned;

    /// As errors name them.
    const ELEMENTS: &'static str;

    /// Takes the next element, or refuses the list.
    fn push<E: Error>(&mut self, element: Self::Element) -> Result<(), E>;
}

fn gather<'de, L: Gather, A: SeqAccess<'de>>(mut elements: A) -> Result<L, A::Error> {
    let mut list = L::default();
    while let Some(element) = elements.next_element()? {
        list.push(element)?;
    }
    Ok(list)
}

/// Reads a list.
pub(crate) fn read_list<'de, L: Gather, D: Deserializer<'de>>(source: D) -> Result<L, D::Error> {
    struct List<L>(PhantomData<L>);

    impl<'de, L: Gather> Visitor<'de> for List<L> {
        type Value = L;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a sequence")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<L, A::Error> {
            gather(elements)
        }
    }

    source.deserialize_seq(List(PhantomData))
}

/// A string or a list.
#[derive(Debug)]
pub(crate) enum TextOr<L> {
    Text(String),
    /// Boxed, because the other kind is as frequent and there may be many.
    List(Box<L>),
}

impl<'de, L: Gather> Deserialize<'de> for TextOr<L> {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        struct TextOrList<L>(PhantomData<L>);

        impl<'de, L: Gather> Visitor<'de> for TextOrList<L> {
            type Value = TextOr<L>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a string or a list of {}", L::ELEMENTS)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TextOr<L>, E> {
                Ok(TextOr::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, elements: A) -> Result<TextOr<L>, A::Error> {
                gather(elements).map(|list| TextOr::List(Box::new(list)))
            }
        }

        source.deserialize_any(TextOrList(PhantomData))
    }
}

/// Writes a list of elements that are kept as they are.
macro_rules! list {
    ($(#[$about:meta])* $name:ident($kind:ty), $most:expr, $what:literal) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        pub(crate) struct $name(pub(crate) Vec<$kind>);

        impl $crate::request::list::Gather for $name {
            type Element = $kind;

            const ELEMENTS: &'static str = $what;

            fn push<E: serde::de::Error>(&mut self, element: $kind) -> Result<(), E> {
                $crate::request::list::bound(self.0.len(), $most, Self::ELEMENTS)?;
                self.0.push(element);
                Ok(())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
                $crate::request::list::read_list(source)
            }
        }
    };
}
pub(crate) use list;

/// Ends a list that has become too long.
pub(crate) fn bound<E: Error>(length: usize, most: usize, what: &str) -> Result<(), E> {
    match length < most {
        true => Ok(()),
        false => Err(E::custom(format_args!("more than {most} {what}"))),
    }
}
