//! Faults of an experiment file.

use std::fmt;
use std::ops::Range;

use super::place;

/// A fault and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The field, such as `rows.paper`, or empty if the fault cannot be attributed to one.
    pub field: String,
    /// Description of the fault.
    pub what: String,
}

impl Fault {
    /// Creates a fault at a position of the text.
    pub(crate) fn at(file: &str, text: &str, span: Range<usize>, field: &str, what: impl fmt::Display) -> Self {
        Self { file: file.into(), line: line(text, span.start), field: field.into(), what: what.to_string() }
    }

    /// Creates a fault at the field of this name in the same table as the text at `near`, or at that text if there is
    /// no such field.
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
