//! Faults of an experiment file.

use std::fmt;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// The field, such as `rows.paper`, or empty if the fault cannot be attributed to a field.
    pub field: String,
    pub what: String,
}

impl Fault {
    pub(crate) fn at(file: &str, text: &str, span: Range<usize>, field: &str, what: impl fmt::Display) -> Self {
        Self { file: file.into(), line: line(text, span.start), field: field.into(), what: what.to_string() }
    }

    /// Creates a fault at the field of this name in the same table as the text at `near`, or at that text if there is
    /// no such field.
    pub(crate) fn beside(file: &str, text: &str, near: Range<usize>, field: &str, what: impl fmt::Display) -> Self {
        let name = field.rsplit('.').next().unwrap_or(field);
        let span = beside(text, &near, name).unwrap_or(near);
        Self::at(file, text, span, field, what)
    }

    pub(super) fn of_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let line = error.span().map_or_else(|| line_of(text, error), |span| line(text, span.start));
        Self { file: file.into(), line, field: field(text, error), what: error.message().into() }
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

/// Maximum nesting depth of the fields of an experiment.
const DEEPEST: usize = 8;

/// Returns the field that causes an error in a valid TOML text, such as `flows.tcp.segment`, or an empty string if it
/// is unknown.
pub(super) fn field(text: &str, error: &toml::de::Error) -> String {
    let (Ok(all), Some(span)) = (DeTable::parse(text), error.span()) else { return String::new() };
    let found = path(all.get_ref(), &span, DEEPEST);
    let missing = error.message().strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let of_root = span == all.span() || found.is_none();
    let mut names = found.filter(|_| !(of_root && missing.is_some())).map_or_else(Vec::new, |(names, _)| names);
    names.extend(missing);
    names.join(".")
}

/// Returns the line of an error without a position: the shortest prefix of lines that has the same error ends with
/// it.
pub(super) fn line_of(text: &str, error: &toml::de::Error) -> usize {
    let has_it = |end: &usize| DeTable::parse(&text[..*end]).is_err_and(|other| other.message() == error.message());
    let ends: Vec<usize> = text.match_indices('\n').map(|(end, _)| end + 1).collect();
    ends.partition_point(|end| !has_it(end)) + 1
}

/// Returns the position of the field `name` in the table that contains the value at `at`.
pub(super) fn beside(text: &str, at: &Range<usize>, name: &str) -> Option<Range<usize>> {
    let all = DeTable::parse(text).ok()?;
    let (_, table) = path(all.get_ref(), at, DEEPEST)?;
    table.keys().find(|key| key.get_ref() == name).map(Spanned::span)
}

/// Returns the names of the fields that lead to the value at `at`, and the table that contains the last field.
fn path<'t>(table: &'t DeTable<'t>, at: &Range<usize>, deep: usize) -> Option<(Vec<&'t str>, &'t DeTable<'t>)> {
    let deep = deep.checked_sub(1)?;
    for (key, value) in table {
        let name = key.get_ref().as_ref();
        if let Some((mut names, inner)) = within(value, at, deep) {
            names.insert(0, name);
            return Some((names, inner));
        }
        if key.span() == *at || value.span() == *at || is_item(value, at) {
            return Some((vec![name], table));
        }
    }
    None
}

fn within<'t>(
    value: &'t Spanned<DeValue<'t>>,
    at: &Range<usize>,
    deep: usize,
) -> Option<(Vec<&'t str>, &'t DeTable<'t>)> {
    match value.get_ref() {
        DeValue::Table(table) => path(table, at, deep),
        DeValue::Array(items) => items.iter().find_map(|item| path(item.get_ref().as_table()?, at, deep)),
        _ => None,
    }
}

fn is_item(value: &Spanned<DeValue<'_>>, at: &Range<usize>) -> bool {
    value.get_ref().as_array().is_some_and(|items| items.iter().any(|item| item.span() == *at))
}
