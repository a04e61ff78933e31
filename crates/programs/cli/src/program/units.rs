//! Numbers with units on the command line.

use std::time::Duration;

use longhaul_units::Rate;

use crate::perf::units;

/// Parses a rate in bits per second: a number, which may have a fraction, and one of the suffixes `k`, `M` and `G` of
/// either case, which are powers of 1000.
pub(super) fn parse_rate(text: &str) -> Result<Rate, String> {
    match units::parse_rate(text) {
        Ok(bits) if (8..1_000_000_000_000_000).contains(&bits) && !text.ends_with(['t', 'T']) => {
            Ok(Rate::from_bits_per_sec(bits))
        }
        _ => Err(format!("{text:?} is not a rate in bits per second, such as 500k, 20M or 1G")),
    }
}

/// Parses a duration: a number, which may have a fraction, and the unit `us`, `ms`, `s`, `m`, `h` or `d`. The default
/// unit is seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match text.get(digits.len()..) {
        Some("us") => 1e-6,
        Some("ms") => 1e-3,
        Some("" | "s") => 1.0,
        Some("m" | "min") => 60.0,
        Some("h") => 3600.0,
        Some("d") => 86_400.0,
        _ => return Err(format!("{text:?} has no unit us, ms, s, m, h or d")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{text:?} is not a time, such as 90s or 1h"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("{text:?} is out of range"))
}

/// Parses a time limit of at least one second.
pub(super) fn parse_limit(text: &str) -> Result<Duration, String> {
    let limit = parse_duration(text)?;
    if limit < Duration::from_secs(1) { Err(format!("{text:?} is less than 1s")) } else { Ok(limit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_by_a_table() {
        for (text, bits) in
            [("8000", 8000), ("64k", 64_000), ("1.5M", 1_500_000), ("20m", 20_000_000), ("1G", 1_000_000_000)]
        {
            assert_eq!(parse_rate(text), Ok(Rate::from_bits_per_sec(bits)), "{text}");
        }
        for text in ["", "0", "M", "-1M", "1T", "nan", "infG", "1 M", "1e300"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_by_a_table() {
        for (text, millis) in [
            ("0", 0),
            ("90", 90_000),
            ("1.5s", 1500),
            ("600ms", 600),
            ("2000us", 2),
            ("5m", 300_000),
            ("2min", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "h", "1w", "-1s", "1h30m", "nan", "inf", "1e300h", "1 h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_limit("1000ms"), Ok(Duration::from_secs(1)));
        for text in ["0", "999ms", "x"] {
            assert!(parse_limit(text).is_err(), "{text}");
        }
    }
}
