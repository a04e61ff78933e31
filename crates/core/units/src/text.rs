//! Quantities as text for people, in units that keep the numbers short.

use crate::Span;

/// Formats a rate in bit/s with a decimal unit: `9.5 Mb/s`.
#[must_use]
pub fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        bits if bits >= 1e9 => format!("{:.2} Gb/s", bits / 1e9),
        bits if bits >= 1e6 => format!("{:.1} Mb/s", bits / 1e6),
        bits => format!("{:.1} kb/s", bits / 1e3),
    }
}

/// Formats a time in milliseconds, or in microseconds if it is less than 1 ms: `40.2 ms`.
#[must_use]
pub fn time(span: Span) -> String {
    let nanos = span.as_nanos();
    if nanos >= 1_000_000 { format!("{:.1} ms", nanos as f64 / 1e6) } else { format!("{} us", nanos / 1000) }
}

/// Formats a number of bytes with a binary unit: `1.50 KiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_unit_that_fits() {
        assert_eq!([9_600.0, 9.5e6, 1.234e9].map(rate), ["9.6 kb/s", "9.5 Mb/s", "1.23 Gb/s"]);
        let times = [12_700, 999_400, 1_000_000, 40_250_000].map(|nanos| time(Span::from_nanos(nanos)));
        assert_eq!(times, ["12 us", "999 us", "1.0 ms", "40.2 ms"]);
        assert_eq!([0, 1023, 1536, 3 << 20].map(size), ["0 B", "1023 B", "1.50 KiB", "3.00 MiB"]);
    }
}
