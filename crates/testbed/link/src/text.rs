//! Quantities as text for people, in units that keep the numbers short.

use longhaul_units::Span;

/// Formats a rate in bit/s with a decimal unit: `9.5 Mb/s`.
#[must_use]
pub fn rate(bits_per_second: f64) -> String {
    match bits_per_second {
        bits if bits >= 1e9 => format!("{:.2} Gb/s", bits / 1e9),
        bits if bits >= 99.95e6 => format!("{:.0} Mb/s", bits / 1e6),
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

/// Formats a number of bytes with a decimal unit: `1.5 kB`, `141 MB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut number, mut units) = (bytes as f64 / 1e3, UNITS.iter());
    let mut unit = units.next();
    // 999.5 would be shown as 1000.
    while number >= 999.5 && units.len() > 0 {
        (number, unit) = (number / 1e3, units.next());
    }
    let decimals = usize::from(number < 99.95);
    format!("{number:.decimals$} {}", unit.unwrap_or(&""))
}

/// Formats a number of seconds in at most two units: `4 min 32 s`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    const UNITS: [(&str, u64); 4] = [("days", 86_400), ("h", 3600), ("min", 60), ("s", 1)];
    if seconds < 9.95 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let largest = UNITS.iter().position(|(_, unit)| whole >= *unit).unwrap_or(UNITS.len() - 1);
    let mut rest = whole;
    let parts = UNITS.iter().skip(largest).take(2).filter_map(|(name, unit)| {
        let number = rest / unit;
        rest %= unit;
        (number > 0).then(|| format!("{number} {}", if number == 1 && *name == "days" { "day" } else { name }))
    });
    parts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_the_unit_that_fits() {
        assert_eq!([9_600.0, 9.5e6, 141e6, 1.234e9].map(rate), ["9.6 kb/s", "9.5 Mb/s", "141 Mb/s", "1.23 Gb/s"]);
        let times = [12_700, 999_400, 1_000_000, 40_250_000].map(|nanos| time(Span::from_nanos(nanos)));
        assert_eq!(times, ["12 us", "999 us", "1.0 ms", "40.2 ms"]);
        assert_eq!([0, 999, 1536, 99_949].map(size), ["0 B", "999 B", "1.5 kB", "99.9 kB"]);
        assert_eq!([99_950, 999_499, 999_500, 8_600_000_000].map(size), ["100 kB", "999 kB", "1.0 MB", "8.6 GB"]);
        assert_eq!(size(u64::MAX), "18447 PB");
        let durations = [0.0, 2.14, 59.6, 272.0, 3600.0, 11_530.0, 90_061.0, 200_000.0].map(duration);
        assert_eq!(
            durations,
            ["0.0 s", "2.1 s", "1 min", "4 min 32 s", "1 h", "3 h 12 min", "1 day 1 h", "2 days 7 h"]
        );
    }
}
