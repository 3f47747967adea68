//! What is wrong with a body, noted while it is read.
//!
//! Lists are reduced to what they mean as they are read, so that many small elements take little
//! memory. Whoever reads an element does not know its path, nor whether unknown fields are refused:
//! both come later.

use std::fmt;

use crate::request::object::Others;
use crate::request::support::{self, Field};
use crate::{RequestError, UnknownFields};

/// The first problem of each kind.
#[derive(Debug, Default)]
pub(super) struct Problems {
    first: Option<RequestError>,
    /// A field that nobody knows.
    unknown: Option<RequestError>,
}

impl Problems {
    pub(super) fn add(&mut self, error: RequestError) {
        self.first.get_or_insert(error);
    }

    pub(super) fn add_unknown(&mut self, field: &str) {
        self.unknown
            .get_or_insert_with(|| RequestError::unknown(field));
    }

    /// Notes the fields of an object that have no effect there, other than those in `fields`.
    pub(super) fn add_others(&mut self, others: &Others, fields: &[Field]) {
        let check = |unknown| support::check(others, fields, "", unknown);
        if let Err(error) = check(UnknownFields::Ignore) {
            self.add(error);
        } else if let Err(error) = check(UnknownFields::Refuse) {
            self.unknown.get_or_insert(error);
        }
    }

    /// Takes over the problems of what is at `path`.
    pub(super) fn absorb(&mut self, inner: Self, path: fmt::Arguments<'_>) {
        let under = |error: RequestError| error.under(&path.to_string());
        if self.first.is_none() {
            self.first = inner.first.map(under);
        }
        if self.unknown.is_none() {
            self.unknown = inner.unknown.map(under);
        }
    }

    /// Takes over problems whose paths are complete.
    pub(super) fn merge(&mut self, inner: Self) {
        self.first = self.first.take().or(inner.first);
        self.unknown = self.unknown.take().or(inner.unknown);
    }

    pub(super) fn check(self, unknown: UnknownFields) -> Result<(), RequestError> {
        let unknown = match unknown {
            UnknownFields::Refuse => self.unknown,
            UnknownFields::Ignore => None,
        };
        self.first.or(unknown).map_or(Ok(()), Err)
    }
}
