//! Quantities as readers of reports expect them.

use std::fmt::Display;

use longhaul_link::text;
use longhaul_units::Span;

/// A span in microseconds, the unit of times in reports.
pub(super) fn micros(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e3
}

/// A time in microseconds as text. The unit is chosen after rounding to nanoseconds.
pub(super) fn time(micros: f64) -> String {
    text::time(Span::from_nanos((micros.max(0.0) * 1e3).round() as u64))
}

pub(super) fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}
