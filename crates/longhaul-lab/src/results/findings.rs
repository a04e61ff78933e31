//! Summary of the rows in a document, next to text written by hand.

use std::fmt::Write;

use super::report::{Report, Reported, paper};
use crate::judge::{Judged, Numbers};
use crate::rule::Verdict;

/// Marks around the generated part of a document.
const MARKS: [&str; 2] = ["<!-- results -->", "<!-- end of results -->"];

/// Returns `document` with the part between the marks replaced by a summary of `report`, or `None` unless it has both
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

/// Returns the numbers of rows per paper, and the rows that are not reproduced with the reasons.
fn tables(report: &Report) -> String {
    let mut text = "| paper | reproduced | not | not reproducible | not run |\n|---|---|---|---|---|\n".to_owned();
    for paper in &report.papers {
        let counts = [paper.reproduced, paper.not_reproduced, paper.not_reproducible, paper.incomplete];
        let _ = writeln!(text, "| {} | {} |", paper.paper, counts.map(|count| count.to_string()).join(" | "));
    }
    for known in &report.papers {
        let of_paper = report.experiments.iter().filter(|one| paper(&one.source) == known.paper);
        let lines: String = of_paper.map(missed).collect();
        if !lines.is_empty() {
            let _ = write!(text, "\n### {}\n\n{lines}", known.paper);
        }
    }
    text
}

/// Returns one item per reason for which rows of an experiment are not reproduced.
fn missed(one: &Reported) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in one.rows.iter().filter(|row| row.verdict != Verdict::Reproduced) {
        match reasons.iter_mut().find(|(reason, _)| *reason == row.reason) {
            Some((_, rows)) => rows.push(values(row)),
            None => reasons.push((&row.reason, vec![values(row)])),
        }
    }
    let mut text = String::new();
    for (reason, rows) in reasons {
        let reason = if reason.is_empty() { "no reason is given" } else { reason };
        let _ = writeln!(text, "* `{}`: {}: {reason}", one.experiment, rows.join("; "));
    }
    text
}

/// Returns a row with our value, and the paper's value or the rule that it does not meet.
fn values(row: &Judged) -> String {
    if row.verdict == Verdict::NotReproducible {
        return format!("{} (not reproducible)", row.row);
    }
    let paper = numbers(&row.paper);
    let wanted = if paper.is_empty() { row.rule.clone() } else { format!("{paper}, {}", row.rule) };
    format!("{} ({}, expected: {wanted})", row.row, ours(row))
}

/// Returns our value with its unit.
fn ours(row: &Judged) -> String {
    let text = numbers(&row.ours);
    match text.as_str() {
        "" => "no value".into(),
        _ if row.unit.is_empty() => text,
        _ => format!("{text} {}", row.unit),
    }
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
    use super::super::Times;
    use super::*;

    #[test]
    fn four_digits_that_count() {
        for (number, text) in [(0.0, "0"), (1_250_000.4, "1250000"), (49.434, "49.43"), (0.97, "0.97"), (-3.0, "-3")] {
            assert_eq!(short(number), text);
        }
    }

    #[test]
    fn rows_that_are_not_reproduced_are_grouped_by_reason() {
        let row = |row: &str, verdict, ours, paper, reason: &str| Judged {
            experiment: "x".into(),
            row: row.into(),
            metric: "time".into(),
            unit: "s".into(),
            paper: Numbers::One(paper),
            ours: Numbers::One(ours),
            low: Numbers::One(ours),
            high: Numbers::One(ours),
            rule: "at most 2".into(),
            verdict,
            reason: reason.into(),
            seeds: 1,
        };
        let rows = vec![
            row("a", Verdict::NotReproduced, Some(3.0), None, "bursts"),
            row("b", Verdict::Reproduced, Some(1.0), None, "bursts"),
            row("c", Verdict::NotReproduced, None, Some(1.5), "bursts"),
            row("d", Verdict::NotReproducible, None, None, "no number"),
        ];
        let one = Reported {
            experiment: "x".into(),
            title: "X".into(),
            source: "Nobody, table 1".into(),
            program: String::new(),
            ended: 1,
            all: 1,
            rows,
            times: Times::of(&[], 0.0),
            flow_seconds_per_second: 0.0,
        };
        assert_eq!(
            missed(&one),
            "* `x`: a (3 s, expected: at most 2); c (no value, expected: 1.5, at most 2): bursts\n\
             * `x`: d (not reproducible): no number\n"
        );
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
