//! Conversion of quantities to numbers in the units of tables and pictures.

use longhaul_cc::Quantity;
use longhaul_units::{Rate, Span};

/// Returns Mb/s.
pub(crate) fn mbps(rate: Rate) -> f64 {
    rate.as_bytes_per_sec() as f64 * 8e-6
}

/// Returns milliseconds.
pub(crate) fn millis(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Returns a rate in Mb/s, a time in milliseconds, bytes, or a plain number. Returns `None` for anything else.
pub(crate) fn number(value: Quantity) -> Option<f64> {
    match value {
        Quantity::Rate(rate) => Some(mbps(rate)),
        Quantity::Bytes(bytes) => Some(bytes.as_f64()),
        Quantity::Span(span) => Some(millis(span)),
        Quantity::Number(number) => Some(number),
        _ => None,
    }
}
