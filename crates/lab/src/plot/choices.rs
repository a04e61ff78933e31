//! Choices that are numbers.

use longhaul_link::spec::value;

/// Returns the values of texts and their unit, if all are numbers of one unit, or if all are rates, times or sizes.
pub(super) fn numbers(texts: &[String]) -> Option<(Vec<f64>, String)> {
    alike(texts).or_else(|| measured(texts)).filter(|(values, _)| !values.is_empty())
}

/// Parses numbers that are followed by the same unit.
fn alike(texts: &[String]) -> Option<(Vec<f64>, String)> {
    let mut unit = None;
    let mut values = Vec::new();
    for text in texts {
        let end = text.find(|c: char| !c.is_ascii_digit() && !".-".contains(c)).unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        values.push(number.parse::<f64>().ok().filter(|value| value.is_finite())?);
        let rest = rest.trim();
        if *unit.get_or_insert(rest) != rest {
            return None;
        }
    }
    let unit = match unit? {
        "kbit" => "kb/s",
        "mbit" => "Mb/s",
        "gbit" => "Gb/s",
        other => other,
    };
    Some((values, unit.into()))
}

fn measured(texts: &[String]) -> Option<(Vec<f64>, String)> {
    let all = |read: &dyn Fn(&str) -> Option<f64>| texts.iter().map(|text| read(text)).collect::<Option<Vec<f64>>>();
    let rate = |text: &str| Some(value::rate(text).ok()?.as_bits_per_sec() as f64 * 1e-6);
    let time = |text: &str| Some(value::span(text).ok()?.as_secs_f64());
    let size = |text: &str| Some(value::size(text).ok()? as f64);
    (all(&rate).map(|values| (values, "Mb/s")))
        .or_else(|| all(&time).map(|values| (values, "s")))
        .or_else(|| all(&size).map(|values| (values, "bytes")))
        .map(|(values, unit)| (values, unit.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_by_a_table() {
        let of = |texts: &[&str]| numbers(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["0.1%", "1%"]), Some((vec![0.1, 1.0], "%".into())));
        assert_eq!(of(&["1", "16"]), Some((vec![1.0, 16.0], String::new())));
        assert_eq!(of(&["5mbit", "20mbit"]), Some((vec![5.0, 20.0], "Mb/s".into())));
        assert_eq!(of(&["500kbit", "20mbit"]), Some((vec![0.5, 20.0], "Mb/s".into())));
        assert_eq!(of(&["500ms", "1s"]), Some((vec![0.5, 1.0], "s".into())));
        assert_eq!(of(&["15kB", "1MB"]), Some((vec![15e3, 1e6], "bytes".into())));
        assert_eq!(of(&["tcp", "1"]), None);
        assert_eq!(of(&["1s", "1mbit"]), None);
        assert_eq!(of(&[]), None);
    }
}
