//! iperf3's units: powers of 1024 for sizes, powers of 1000 for rates.

/// Parses a size in bytes, such as `128K` or `1.5G`: suffixes K, M, G and T of either case are powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    parse(text, 1024.0)
}

/// Parses a rate in bits per second, such as `10M`: suffixes K, M, G and T of either case are powers of 1000.
pub(crate) fn parse_rate(text: &str) -> Result<u64, String> {
    parse(text, 1000.0)
}

fn parse(text: &str, base: f64) -> Result<u64, String> {
    let suffix = text.char_indices().next_back().and_then(|(at, c)| Some((at, power(c)?)));
    let (digits, power) = suffix.map_or((Some(text), 0), |(at, power)| (text.get(..at), power.into()));
    let digits = digits.filter(|digits| digits.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    let number = digits.and_then(|digits| digits.parse::<f64>().ok()).map(|number| number * base.powi(power));
    match number {
        Some(number) if number.is_finite() && number < u64::MAX as f64 => Ok(number as u64),
        _ => Err(format!("`{text}` is not a number with one of the suffixes K, M, G, T")),
    }
}

/// Returns the power of 1000 or 1024 for which a suffix of either case stands.
fn power(suffix: char) -> Option<u8> {
    "kmgt".find(suffix.to_ascii_lowercase()).map(|at| at as u8 + 1)
}

/// Scaling of figures: each by its own magnitude, or all by the same factor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The unit that gives three digits.
    #[default]
    Adaptive,
    /// Rates in bits, scaled by this power of 1000.
    Bits(u8),
    /// Rates in bytes, scaled by this power of 1024.
    Bytes(u8),
}

/// Parses iperf3's `--format`: one of `kmgtKMGT`, lower case for bits.
pub(crate) fn parse_scale(text: &str) -> Result<Scale, String> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(c), None) if c.is_ascii_uppercase() => power(c).map(Scale::Bytes),
        (Some(c), None) => power(c).map(Scale::Bits),
        _ => None,
    }
    .ok_or_else(|| format!("`{text}` is not one of k, m, g, t, K, M, G, T"))
}

/// Formats a size as iperf3 does, such as `1.22 MBytes`.
pub(crate) fn size(bytes: f64) -> String {
    scaled(bytes, 1024.0, None, "Bytes")
}

/// Formats a rate as iperf3 does, such as `10.2 Mbits/sec`.
pub(crate) fn rate(bits_per_second: f64, scale: Scale) -> String {
    let text = match scale {
        Scale::Adaptive => scaled(bits_per_second, 1000.0, None, "bits"),
        Scale::Bits(power) => scaled(bits_per_second, 1000.0, Some(power), "bits"),
        Scale::Bytes(power) => scaled(bits_per_second / 8.0, 1024.0, Some(power), "Bytes"),
    };
    text + "/sec"
}

fn scaled(mut number: f64, base: f64, power: Option<u8>, unit: &str) -> String {
    const PREFIXES: [&str; 5] = ["", "K", "M", "G", "T"];
    let mut at = 0;
    while power.map_or(number >= base, |power| at < power.into()) && at + 1 < PREFIXES.len() {
        number /= base;
        at += 1;
    }
    let decimals = match number {
        n if n < 9.995 => 2,
        n if n < 99.95 => 1,
        _ => 0,
    };
    let prefix = PREFIXES.get(at).copied().unwrap_or_default();
    format!("{number:4.decimals$} {prefix}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_are_powers_of_1024_for_sizes_and_of_1000_for_rates() {
        assert_eq!(parse_size("128K"), Ok(131_072));
        assert_eq!(parse_size("1.5g"), Ok(3 << 29));
        assert_eq!(parse_rate("10M"), Ok(10_000_000));
        assert_eq!(parse_rate("0"), Ok(0));
        for bad in ["", "M", "-1", "1e999", "nan", "inf", "10MB", "1 M", "99999999T", "µ"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    /// Output of iperf 3.12.
    #[test]
    fn figures_have_three_digits_as_iperf3_has_them() {
        assert_eq!(size(1_277_952.0), "1.22 MBytes");
        assert_eq!(size(131_072.0), " 128 KBytes");
        assert_eq!(size(10_485_760.0), "10.0 MBytes");
        assert_eq!(size(1023.0 * 1024.0), "1023 KBytes");
        assert_eq!(rate(10_222_675.0, Scale::Adaptive), "10.2 Mbits/sec");
        assert_eq!(rate(484e6, Scale::Adaptive), " 484 Mbits/sec");
        assert_eq!(rate(0.0, Scale::Adaptive), "0.00 bits/sec");
        assert_eq!(rate(10e6, parse_scale("k").unwrap()), "10000 Kbits/sec");
        assert_eq!(rate(8.0 * 1048576.0, parse_scale("M").unwrap()), "1.00 MBytes/sec");
        assert!(parse_scale("x").is_err() && parse_scale("kk").is_err());
    }
}
