//! Tables of rows in a document, next to text written by hand.

use std::fmt::Write;

use super::report::{Report, Reported, paper};
use crate::judge::{Judged, Numbers};
use crate::rule::Verdict;

/// Marks around the generated part of a document.
const MARKS: [&str; 2] = ["<!-- results -->", "<!-- end of results -->"];

/// Returns `document` with the part between the marks replaced by tables of `report`, or `None` unless it has both
/// marks, once each and in order.
#[must_use]
pub fn written(document: &str, report: &Report) -> Option<String> {
    let (before, rest) = document.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    if MARKS.iter().any(|mark| before.contains(mark) || after.contains(mark)) {
        return None;
    }
    Some(format!("{before}{}\n\n{}\n{}{after}", MARKS[0], tables(report), MARKS[1]))
}

fn tables(report: &Report) -> String {
    let mut text = "| paper | reproduced | not | not reproducible | not run |\n|---|---|---|---|---|\n".to_owned();
    for paper in &report.papers {
        let counts = [paper.reproduced, paper.not_reproduced, paper.not_reproducible, paper.incomplete];
        let _ = writeln!(text, "| {} | {} |", paper.paper, counts.map(|count| count.to_string()).join(" | "));
    }
    for known in &report.papers {
        let _ = write!(text, "\n### {}\n", known.paper);
        for one in report.experiments.iter().filter(|one| paper(&one.source) == known.paper) {
            text += &table(one);
        }
    }
    text
}

fn table(one: &Reported) -> String {
    let seeds = one.rows.iter().map(|row| row.seeds).max().unwrap_or(0);
    let seconds = one.times.computed_seconds;
    let mut text = format!(
        "\n`{}`: {}; {seeds} runs a cell, {seconds:.0} s of computing.\n\n",
        one.experiment,
        one.title.trim_end_matches('.')
    );
    text += "| row | verdict | ours | the paper's | rule | remark |\n|---|---|---|---|---|---|\n";
    for row in &one.rows {
        let cells = [
            row.row.clone(),
            verdict(row.verdict).into(),
            ours(row),
            numbers(&row.paper),
            row.rule.clone(),
            row.reason.clone(),
        ];
        let _ = writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text
}

const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::NotReproduced => "**not**",
        Verdict::NotReproducible => "not reproducible",
    }
}

/// Returns our value with its unit and, if it is a single value, its interval.
fn ours(row: &Judged) -> String {
    let text = match (&row.ours, &row.low, &row.high) {
        (Numbers::One(Some(_)), low, high) if low != high => {
            format!("{} [{}, {}]", numbers(&row.ours), numbers(low), numbers(high))
        }
        (ours, ..) => numbers(ours),
    };
    if row.unit.is_empty() || text.is_empty() { text } else { format!("{text} {}", row.unit) }
}

fn numbers(numbers: &Numbers) -> String {
    match numbers {
        Numbers::One(None) => String::new(),
        Numbers::One(Some(number)) => short(*number),
        Numbers::Many(all) => all.iter().map(|number| number.map_or("–".into(), short)).collect::<Vec<_>>().join(", "),
    }
}

/// Formats a number with four significant digits.
fn short(number: f64) -> String {
    let magnitude = if number == 0.0 { 0.0 } else { number.abs().log10().floor() };
    let decimals = (3.0 - magnitude).clamp(0.0, 6.0) as usize;
    let text = format!("{number:.decimals$}");
    if decimals == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_that_count() {
        for (number, text) in [(0.0, "0"), (1_250_000.4, "1250000"), (49.434, "49.43"), (0.97, "0.97"), (-3.0, "-3")] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn only_text_between_the_marks_is_replaced() {
        let report = Report { experiments: Vec::new(), papers: Vec::new() };
        let document = "Before.\n<!-- results -->\nold\n<!-- end of results -->\nAfter.\n";
        let text = written(document, &report).unwrap();
        assert!(
            text.starts_with("Before.\n<!-- results -->\n\n| paper |")
                && text.ends_with("<!-- end of results -->\nAfter.\n")
        );
        assert!(!text.contains("old"));
        assert_eq!(written(&text, &report).as_ref(), Some(&text), "it can be done again");
        for wrong in ["", "<!-- results -->", "<!-- end of results --><!-- results -->"] {
            assert_eq!(written(wrong, &report), None);
        }
    }
}
