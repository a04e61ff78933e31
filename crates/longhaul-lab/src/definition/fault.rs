//! What is wrong with a file.

use std::fmt;
use std::ops::Range;

use super::place;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The field, such as `rows.paper`; empty if the text does not get that far.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
}

impl Fault {
    /// At a place of a text.
    pub(crate) fn at(file: &str, text: &str, span: Range<usize>, field: &str, what: impl fmt::Display) -> Self {
        Self { file: file.into(), line: line(text, span.start), field: field.into(), what: what.to_string() }
    }

    /// At the field of that name which stands beside a text in the same table; at the text if there is none.
    pub(crate) fn beside(file: &str, text: &str, near: Range<usize>, field: &str, what: impl fmt::Display) -> Self {
        let name = field.rsplit('.').next().unwrap_or(field);
        let span = place::beside(text, &near, name).unwrap_or(near);
        Self::at(file, text, span, field, what)
    }

    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map_or_else(|| place::line_of(text, error), |span| line(text, span.start));
        Self { file: file.into(), line, field: place::field(text, error), what: error.message().into() }
    }
}

fn line(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: ", self.file, self.line)?;
        if !self.field.is_empty() {
            write!(out, "{}: ", self.field)?;
        }
        out.write_str(&self.what)
    }
}

impl std::error::Error for Fault {}
