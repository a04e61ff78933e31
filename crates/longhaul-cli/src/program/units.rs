//! Numbers with units on the command line.

use std::time::Duration;

/// Parses a time: a number, which may have a fraction, and the unit `s`, `m`, `h` or `d`; without a unit, seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds = match text.get(digits.len()..) {
        Some("" | "s") => 1.0,
        Some("m" | "min") => 60.0,
        Some("h") => 3600.0,
        Some("d") => 86_400.0,
        _ => return Err(format!("{text:?} has no unit s, m, h or d")),
    };
    let number: f64 = digits.parse().map_err(|_| format!("{text:?} is not a time, such as 90s or 1h"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("{text:?} is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_by_a_table() {
        for (text, millis) in [
            ("0", 0),
            ("90", 90_000),
            ("1.5s", 1500),
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
    }
}
