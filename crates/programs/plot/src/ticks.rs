//! Positions and labels of ticks on an axis.

/// Returns a step of 1, 2 or 5 times a power of ten, so that a range has about `about` steps.
pub fn step(range: f64, about: usize) -> f64 {
    let rough = range / about.max(1) as f64;
    if !rough.is_finite() || rough <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(rough.log10().floor());
    let whole = rough / power;
    // The boundaries between steps are geometric means.
    let nice = match whole {
        w if w < 2f64.sqrt() => 1.0,
        w if w < 10f64.sqrt() => 2.0,
        w if w < 50f64.sqrt() => 5.0,
        _ => 10.0,
    };
    nice * power
}

/// Returns the multiples of a step within a range.
pub fn linear(low: f64, high: f64, step: f64) -> Vec<f64> {
    let tiny = step * 1e-9;
    let (first, last) = (((low - tiny) / step).ceil(), ((high + tiny) / step).floor());
    if !first.is_finite() || !last.is_finite() || last < first {
        return Vec::new();
    }
    // Multiplication avoids the accumulated error of a sum. The limit exceeds the ticks of any axis.
    let count = ((last - first) as usize).min(1000);
    (0..=count).map(|n| (first + n as f64) * step).collect()
}

/// Returns the powers of ten within a range. If there are fewer than three, it also returns 2 and 5 times these
/// powers; if there are many, it returns only every second, third, ... power.
pub fn logarithmic(low: f64, high: f64) -> Vec<f64> {
    if !(low > 0.0 && high >= low && high.is_finite()) {
        return Vec::new();
    }
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let within = |value: &f64| *value >= low * (1.0 - 1e-9) && *value <= high * (1.0 + 1e-9);
    let decades: Vec<f64> = (first..=last).map(|power| 10f64.powi(power)).filter(within).collect();
    if decades.len() >= 3 {
        return decades.iter().copied().step_by(decades.len().div_ceil(8)).collect();
    }
    (first..=last).flat_map(|power| [1.0, 2.0, 5.0].map(|times| times * 10f64.powi(power))).filter(within).collect()
}

/// Formats the number at a tick with the decimals of its step, and with thousands separated.
pub fn label(value: f64, step: f64) -> String {
    let decimals = (-step.abs().log10() - 1e-9).ceil().clamp(0.0, 12.0);
    if decimals > 5.0 {
        return power(value);
    }
    grouped(value, decimals as usize)
}

/// Formats a number with four significant digits.
pub fn number(value: f64) -> String {
    digits(value, 4.0)
}

/// Formats a number where space is limited: three significant digits, in thousands or millions if it is large.
pub fn short(value: f64) -> String {
    match value.abs() {
        size if (1e6..1e9).contains(&size) => format!("{}M", digits(value / 1e6, 3.0)),
        size if (1e4..1e6).contains(&size) => format!("{}k", digits(value / 1e3, 3.0)),
        _ => digits(value, 3.0),
    }
}

fn digits(value: f64, digits: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "\u{2013}".into();
    }
    if size != 0.0 && !(1e-4..1e9).contains(&size) {
        return power(value);
    }
    let before = if size < 1.0 { 0.0 } else { size.log10().floor() + 1.0 };
    let leading = if size > 0.0 && size < 1.0 { -size.log10().floor() - 1.0 } else { 0.0 };
    let text = grouped(value, (digits - before + leading).clamp(0.0, 8.0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// Returns the ticks of a logarithmic axis with labels. All labels are powers if one of them is far from 1.
pub fn decades(ticks: Vec<f64>) -> Vec<(f64, String)> {
    let is_far = ticks.iter().any(|tick| !(1e-3..2e4).contains(tick));
    ticks.into_iter().map(|tick| (tick, if is_far { power(tick) } else { number(tick) })).collect()
}

fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(whole, rest)| (whole, Some(rest)));
    let is_zero = text.bytes().all(|b| b == b'0' || b == b'.');
    let mut out = String::from(if value < 0.0 && !is_zero { "\u{2212}" } else { "" });
    for (n, digit) in whole.chars().enumerate() {
        // Four digits are readable without a separator.
        if n > 0 && whole.len() > 4 && (whole.len() - n) % 3 == 0 {
            out.push('\u{2009}');
        }
        out.push(digit);
    }
    if let Some(rest) = rest {
        out.push('.');
        out += rest;
    }
    out
}

/// Formats a number as a power of ten: 2×10⁻⁶.
fn power(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let text = format!("{value:.3e}");
    let (factor, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let factor = factor.trim_end_matches('0').trim_end_matches('.');
    let raised: String = exponent
        .chars()
        .map(|c| match c {
            '-' => '\u{207b}',
            '1' => '\u{b9}',
            '2' => '\u{b2}',
            '3' => '\u{b3}',
            digit => char::from_u32(0x2070 + digit.to_digit(10).unwrap_or(0)).unwrap_or(digit),
        })
        .collect();
    let minus = if factor.starts_with('-') { "\u{2212}" } else { "" };
    match factor.trim_start_matches('-') {
        "1" => format!("{minus}10{raised}"),
        factor => format!("{minus}{factor}\u{d7}10{raised}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_one_two_or_five() {
        for (range, about, wanted) in [
            (10.0, 5, 2.0),
            (10.0, 10, 1.0),
            (1.0, 5, 0.2),
            (7.3, 5, 2.0),
            (3.0, 5, 0.5),
            (49.43, 6, 10.0),
            (3_091_480.0, 6, 500_000.0),
            (1e-6, 5, 2e-7),
            (95.0, 1, 100.0),
            (0.0, 5, 1.0),
            (f64::NAN, 5, 1.0),
            (f64::INFINITY, 5, 1.0),
        ] {
            let got = step(range, about);
            assert!((got - wanted).abs() <= 1e-9 * wanted, "{range} by {about}: {got}, not {wanted}");
        }
    }

    #[test]
    fn ticks_by_a_table() {
        let near = |got: Vec<f64>, wanted: &[f64]| {
            assert_eq!(got.len(), wanted.len(), "{got:?} {wanted:?}");
            assert!(got.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs()), "{got:?} {wanted:?}");
        };
        near(linear(0.0, 10.0, 2.0), &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        near(linear(-1.0, 1.0, 0.5), &[-1.0, -0.5, 0.0, 0.5, 1.0]);
        near(linear(0.05, 0.36, 0.1), &[0.1, 0.2, 0.3]);
        near(linear(3.0, 3.0, 1.0), &[3.0]);
        near(linear(f64::NAN, 3.0, 1.0), &[]);
        near(logarithmic(1e-6, 1e-2), &[1e-6, 1e-5, 1e-4, 1e-3, 1e-2]);
        near(logarithmic(0.1, 0.5), &[0.1, 0.2, 0.5]);
        near(logarithmic(3.0, 40.0), &[5.0, 10.0, 20.0]);
        near(logarithmic(1.0, 1e16), &[1.0, 1e3, 1e6, 1e9, 1e12, 1e15]);
        near(logarithmic(0.0, 1.0), &[]);
    }

    #[test]
    fn labels_by_a_table() {
        for (value, step, wanted) in [
            (0.0, 2.0, "0"),
            (0.2, 0.2, "0.2"),
            (0.30000000000000004, 0.1, "0.3"),
            (1500.0, 500.0, "1500"),
            (2_500_000.0, 500_000.0, "2\u{2009}500\u{2009}000"),
            (-3.0, 1.0, "\u{2212}3"),
            (0.05, 0.01, "0.05"),
            (2e-7, 1e-7, "2\u{d7}10\u{207b}\u{2077}"),
        ] {
            assert_eq!(label(value, step), wanted);
        }
        for (value, wanted) in [
            (49.43, "49.43"),
            (49.4349, "49.43"),
            (3.0, "3"),
            (0.001_234_6, "0.001235"),
            (47_784.0, "47\u{2009}784"),
            (0.0, "0"),
            (1e-6, "10\u{207b}\u{2076}"),
            (f64::NAN, "\u{2013}"),
        ] {
            assert_eq!(number(value), wanted);
        }
        for (value, wanted) in
            [(49.43, "49.4"), (3_091_480.0, "3.09M"), (47_784.0, "47.8k"), (0.0, "0"), (-2.5, "\u{2212}2.5")]
        {
            assert_eq!(short(value), wanted);
        }
        let labels = |ticks: &[f64]| decades(ticks.to_vec()).into_iter().map(|(_, label)| label).collect::<Vec<_>>();
        assert_eq!(labels(&[1e-4, 1.0, 20.0]), ["10\u{207b}\u{2074}", "10\u{2070}", "2\u{d7}10\u{b9}"]);
        assert_eq!(labels(&[0.01, 1.0]), ["0.01", "1"]);
    }
}
