//! Output of results as lines.

use std::io::{self, Write};

use anyhow::Result;

use crate::judge::{Judged, Numbers};
use crate::rule::Verdict;

/// Prints a line on standard output.
pub(super) fn out(line: &str) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Prints a text on standard output, without a line end.
pub(super) fn text(text: &str) -> Result<()> {
    Ok(write!(io::stdout(), "{text}")?)
}

/// Prints rows, as text or JSON. Returns whether all judged rows are reproduced.
pub(super) fn rows(rows: &[Judged], is_json: bool) -> Result<bool> {
    for row in rows {
        out(&if is_json { serde_json::to_string(row)? } else { line(row) })?;
    }
    Ok(rows.iter().all(|row| row.verdict != Verdict::NotReproduced))
}

pub(super) fn line(row: &Judged) -> String {
    let mut line = format!("{:<14} {:<16}", row.row, verdict(row.verdict));
    if row.verdict != Verdict::NotReproducible {
        line += &format!(" {} {} (paper {}), {}", words(&row.ours), row.unit, words(&row.paper), row.rule);
    }
    if !row.reason.is_empty() {
        line += &format!(": {}", row.reason);
    }
    line
}

pub(super) const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::NotReproduced => "NOT reproduced",
        Verdict::NotReproducible => "not reproducible",
    }
}

pub(super) fn words(numbers: &Numbers) -> String {
    match numbers {
        Numbers::One(one) => number(*one),
        Numbers::Many(numbers) => numbers.iter().copied().map(number).collect::<Vec<_>>().join(", "),
    }
}

pub(super) fn number(number: Option<f64>) -> String {
    match number {
        None => "-".to_owned(),
        Some(number) if number.abs() >= 1000.0 => format!("{number:.0}"),
        Some(number) => format!("{number:.3}"),
    }
}

/// Formats a duration: `41 s`, `3 min 5 s`, `2 h 5 min`.
pub(super) fn duration(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, minutes) if minutes < 10 => format!("{minutes} min {} s", seconds % 60),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_exact_as_they_are_short() {
        let told = [0.4, 41.0, 60.0, 185.0, 1200.0, 7500.0].map(duration);
        assert_eq!(told, ["0 s", "41 s", "1 min 0 s", "3 min 5 s", "20 min", "2 h 5 min"]);
    }
}
