//! Quantities as readers of reports expect them.

use std::fmt::Display;

use longhaul_units::Span;

/// A span in microseconds, the unit of times in reports.
pub(super) fn micros(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e3
}

/// A rate in bits per second, with a decimal unit.
pub(super) fn rate(bits_per_second: u64) -> String {
    match bits_per_second as f64 {
        bits if bits >= 1e9 => format!("{:.2} Gb/s", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.1} Mb/s", bits / 1e6),
        bits => format!("{:.1} kb/s", bits / 1e3),
    }
}

/// A time in microseconds, printed in milliseconds if it is at least 1 ms.
pub(super) fn time(micros: f64) -> String {
    // The unit is chosen after rounding to nanoseconds.
    let nanos = (micros.max(0.0) * 1e3).round() as u64;
    if nanos >= 1_000_000 { format!("{:.1} ms", nanos as f64 / 1e6) } else { format!("{} us", nanos / 1000) }
}

/// The same for a span.
pub(super) fn span(span: Span) -> String {
    time(micros(span))
}

/// A number of bytes with a binary unit.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut number = bytes as f64 / 1024.0;
    let mut unit = 0;
    while number >= 1024.0 && unit + 1 < UNITS.len() {
        number /= 1024.0;
        unit += 1;
    }
    format!("{number:.2} {}", UNITS.get(unit).unwrap_or(&""))
}

/// The value, or "unknown".
pub(super) fn known(value: Option<impl Display>) -> String {
    value.map_or_else(|| "unknown".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_unit_that_fits() {
        let rates = [9_600, 9_500_000, 1_234_000_000].map(rate);
        assert_eq!(rates, ["9.6 kb/s", "9.5 Mb/s", "1.23 Gb/s"]);
        assert_eq!([12.7, 999.4, 1000.0, 40_250.0].map(time), ["12 us", "999 us", "1.0 ms", "40.2 ms"]);
        assert_eq!([0, 1023, 1536, 3 << 20].map(size), ["0 B", "1023 B", "1.50 KiB", "3.00 MiB"]);
        assert_eq!((known(Some(1)), known(None::<u8>)), ("1".to_owned(), "unknown".to_owned()));
    }
}
