//! Quantities as numbers, in the units that tables and pictures have.

use longhaul_cc::Quantity;
use longhaul_units::{Rate, Span};

/// Mb/s.
pub(crate) fn mbps(rate: Rate) -> f64 {
    rate.as_bytes_per_sec() as f64 * 8e-6
}

/// Milliseconds.
pub(crate) fn millis(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Mb/s, milliseconds, bytes, or a number as it is; none of what has no number.
pub(crate) fn number(value: Quantity) -> Option<f64> {
    match value {
        Quantity::Rate(rate) => Some(mbps(rate)),
        Quantity::Bytes(bytes) => Some(bytes.as_f64()),
        Quantity::Span(span) => Some(millis(span)),
        Quantity::Number(number) => Some(number),
        _ => None,
    }
}
