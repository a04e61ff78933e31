//! Values with units as users write them: `20mbit`, `500ms`, `150kB`, `0.1%`. Decimal numbers are parsed exactly.

use longhaul_units::{Rate, Span};

/// Error in the text of a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ValueError(String);

impl ValueError {
    /// The value is negative; `example` shows how to write it.
    fn negative(text: &str, example: &str) -> Self {
        Self(format!("{text:?} is negative; {example}"))
    }

    /// The text does not begin with a number; `what` is the kind of value expected.
    pub(super) fn not_a(what: &str, text: &str, example: &str) -> Self {
        Self(format!("{text:?} is not a {what}; {example}"))
    }

    pub(super) fn no_unit(text: &str, example: &str) -> Self {
        Self(format!("{text:?} has no unit; {example}"))
    }

    pub(super) fn too_large(text: &str, most: &str) -> Self {
        Self(format!("{text:?} is more than {most}"))
    }

    pub(super) fn too_small(text: &str, least: &str) -> Self {
        Self(format!("{text:?} is less than {least}"))
    }

    /// The value has too many or too few comma-separated parts, which should be as in `form`.
    pub(super) fn parts(text: &str, form: &str) -> Self {
        Self(format!("{text:?} should be {form}, separated by commas"))
    }

    pub(super) fn unknown(text: &str, words: &str) -> Self {
        Self(format!("{text:?} is unknown; valid choices are {words}"))
    }
}

struct Kind {
    what: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
}

const RATE: Kind = Kind {
    what: "rate",
    example: "write it as 500kbit, 20mbit or 1.5gbit (bits per second)",
    units: &[("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)],
};

const SPAN: Kind = Kind {
    what: "time",
    example: "write it as 250us, 65ms, 1.5s or 2min",
    units: &[
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("min", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ],
};

const SIZE: Kind = Kind {
    what: "size",
    example: "write it as 1500B, 150kB, 12.5MB or 64KiB",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
};

const SHARE: &str = "write it as 0.1% or 0.001, from 0 to 1";

/// Parses a rate with its unit, such as `20mbit`; the case of the unit does not matter. `Mbps` is refused, because some
/// programs interpret it as megabytes.
pub fn rate(text: &str) -> Result<Rate, ValueError> {
    RATE.parse(text, |unit, known| unit.eq_ignore_ascii_case(known)).map(Rate::from_bits_per_sec)
}

/// Parses a time with its unit, such as `500ms`.
pub fn span(text: &str) -> Result<Span, ValueError> {
    SPAN.parse(text, |unit, known| unit == known).map(Span::from_nanos)
}

/// Parses a size with its unit, such as `150kB` (1 kB is 1000 bytes) or `64KiB` (1 KiB is 1024 bytes).
pub fn size(text: &str) -> Result<u64, ValueError> {
    SIZE.parse(text, |unit, known| unit == known)
}

/// Parses a fraction from 0 to 1, such as `0.1%` or `0.001`.
pub fn share(text: &str) -> Result<f64, ValueError> {
    // Shift the decimal point in the text, before conversion to binary, so that 1.3% and 0.013 are the same number.
    let value = match text.strip_suffix('%') {
        Some(percent) => format!("{percent}e-2").parse::<f64>(),
        None => text.parse(),
    };
    let Some(value) = value.ok().filter(|value| value.is_finite()) else {
        return Err(ValueError::not_a("share", text, SHARE));
    };
    if value < 0.0 {
        return Err(ValueError::negative(text, SHARE));
    }
    if value > 1.0 {
        return Err(ValueError::too_large(text, "1 (100%); write one percent as 1% or 0.01"));
    }
    Ok(value)
}

/// Parses a plain number.
pub fn number(text: &str) -> Result<f64, ValueError> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| ValueError::not_a("number", text, "write it as 0.4 or 2"))
}

/// Parses a whole number.
pub fn whole<N: core::str::FromStr>(text: &str, what: &str) -> Result<N, ValueError> {
    text.parse().map_err(|_| ValueError::not_a(what, text, "write it as a whole number"))
}

impl Kind {
    fn parse(&self, text: &str, same: impl Fn(&str, &str) -> bool) -> Result<u64, ValueError> {
        let Self { what, example, units } = *self;
        if text.starts_with('-') {
            return Err(ValueError::negative(text, example));
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let Some((digits, decimals)) = decimal(number) else {
            return Err(ValueError::not_a(what, text, example));
        };
        if unit.is_empty() && digits == 0 {
            return Ok(0);
        }
        if unit.is_empty() {
            return Err(ValueError::no_unit(text, example));
        }
        let Some((_, worth)) = units.iter().find(|(known, _)| same(unit, known)) else {
            // The unit is unknown, or has different meanings in different programs.
            return Err(ValueError(format!("{unit:?} in {text:?} is not a unit of {what}; {example}")));
        };
        let value = u128::from(digits) * u128::from(*worth) / 10u128.pow(decimals);
        u64::try_from(value).map_err(|_| ValueError::too_large(text, "can be represented"))
    }
}

/// Splits a decimal number into its digits and the count of those after the decimal point.
fn decimal(text: &str) -> Option<(u64, u32)> {
    let (whole, behind) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{behind}").parse().ok()?;
    // Further decimals are below the resolution of every unit.
    let decimals = u32::try_from(behind.len()).ok().filter(|decimals| *decimals <= 18)?;
    Some((digits, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_exact() {
        assert_eq!(rate("20mbit"), Ok(Rate::from_bits_per_sec(20_000_000)));
        assert_eq!(rate("1.544Mbit"), Ok(Rate::from_bytes_per_sec(193_000)));
        assert_eq!((span("500ms"), span("0.1s")), (Ok(Span::from_millis(500)), Ok(Span::from_millis(100))));
        assert_eq!((span("0"), span("1.000000001s")), (Ok(Span::ZERO), Ok(Span::from_nanos(1_000_000_001))));
        assert_eq!((size("150kB"), size("64KiB"), size("1.5MB")), (Ok(150_000), Ok(65_536), Ok(1_500_000)));
        assert_eq!(
            (share("0.1%"), share("0.25"), share("100%"), share("1e-5")),
            (Ok(0.001), Ok(0.25), Ok(1.0), Ok(1e-5))
        );
    }

    #[test]
    fn faults_are_told_with_the_remedy() {
        let told = |fault: Result<u64, ValueError>| fault.unwrap_err().to_string();
        let rate = |text| told(super::rate(text).map(Rate::as_bits_per_sec));
        let span = |text| told(super::span(text).map(Span::as_nanos));
        assert_eq!(rate("20"), "\"20\" has no unit; write it as 500kbit, 20mbit or 1.5gbit (bits per second)");
        assert!(rate("20Mbps").starts_with("\"Mbps\" in \"20Mbps\" is not a unit of rate; write it as"));
        assert!(rate("fast").starts_with("\"fast\" is not a rate;") && rate("1.2.3mbit").contains("is not a rate"));
        let many = format!("0.{}mbit", "0".repeat(99));
        assert!(told(super::rate(&many).map(Rate::as_bits_per_sec)).contains("is not a rate"));
        assert_eq!(rate("99999999999gbit"), "\"99999999999gbit\" is more than can be represented");
        assert_eq!(span("-5ms"), "\"-5ms\" is negative; write it as 250us, 65ms, 1.5s or 2min");
        assert!(span("5MS").contains("is not a unit of time") && span("").contains("is not a time"));
        assert!(told(size("150kb")).contains("is not a unit of size"));
        let share = |text| told(super::share(text).map(|_| 0));
        assert!(
            share("5").contains("more than 1 (100%)")
                && share("-1%").contains("negative")
                && share("x").contains("is not a share")
        );
        assert!(share("NaN").contains("is not a share") && share("inf").contains("is not a share"));
    }
}
