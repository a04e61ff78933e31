//! Summary of the rows for a document, and the list of rows that are not reproduced.

use std::fmt::Write;

use super::held::Results;
use super::report::{Report, Reported, paper};
use super::{LIST, ResultsError, write};
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
    Some(format!("{before}{}\n\n{}\n{}{after}", MARKS[0], summary(report), MARKS[1]))
}

/// Writes the rows of a folder that are not reproduced, with the reasons, to `not-reproduced.md` in the folder.
///
/// # Errors
/// Returns an error of the system.
pub fn write_list(results: &Results, report: &Report) -> Result<(), ResultsError> {
    write::whole(&results.path.join(LIST), list(report).as_bytes())
}

/// Returns the numbers of rows per paper, and the experiments of each paper with the numbers of rows that are not
/// reproduced.
fn summary(report: &Report) -> String {
    let mut text = "| paper | reproduced | not | not reproducible | not run |\n|---|---|---|---|---|\n".to_owned();
    for paper in &report.papers {
        let counts = [paper.reproduced, paper.not_reproduced, paper.not_reproducible, paper.incomplete];
        let _ = writeln!(text, "| {} | {} |", paper.paper, counts.map(|count| count.to_string()).join(" | "));
    }
    let mut lines = String::new();
    for (name, experiments) in by_paper(report) {
        let counts = experiments.iter().map(|one| format!("`{}` {}", one.experiment, missed(one).count()));
        let _ = writeln!(lines, "* {name}: {}", counts.collect::<Vec<_>>().join(", "));
    }
    if !lines.is_empty() {
        text += "\nNumber of rows per experiment that are not reproduced or not reproducible:\n\n";
        text += &lines;
    }
    text
}

/// Returns the rows that are not reproduced, with the reasons, by paper and experiment.
fn list(report: &Report) -> String {
    let mut text = "# Rows that are not reproduced\n".to_owned();
    for (name, experiments) in by_paper(report) {
        let lines: String = experiments.into_iter().map(reasons).collect();
        let _ = write!(text, "\n## {name}\n\n{lines}");
    }
    text
}

/// Returns the papers that have rows that are not reproduced, each with the experiments that have such rows.
fn by_paper(report: &Report) -> impl Iterator<Item = (&str, Vec<&Reported>)> {
    report.papers.iter().filter_map(|known| {
        let of_paper = report.experiments.iter().filter(|one| paper(&one.source) == known.paper);
        let experiments: Vec<&Reported> = of_paper.filter(|one| missed(one).next().is_some()).collect();
        (!experiments.is_empty()).then_some((known.paper.as_str(), experiments))
    })
}

/// Returns the rows of an experiment that are not reproduced or not reproducible.
fn missed(one: &Reported) -> impl Iterator<Item = &Judged> {
    one.rows.iter().filter(|row| row.verdict != Verdict::Reproduced)
}

/// Returns one item per reason for which rows of an experiment are not reproduced.
fn reasons(one: &Reported) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for row in missed(one) {
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
    use super::super::{Paper, Times};
    use super::*;

    #[test]
    fn four_digits_that_count() {
        for (number, text) in [(0.0, "0"), (1_250_000.4, "1250000"), (49.434, "49.43"), (0.97, "0.97"), (-3.0, "-3")] {
            assert_eq!(short(number), text);
        }
    }

    /// Returns a report on an experiment with four rows, of which one is reproduced, and on one without rows to list.
    fn report() -> Report {
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
        let one = |name: &str, source: &str, rows| Reported {
            experiment: name.into(),
            title: "X".into(),
            source: source.into(),
            program: String::new(),
            ended: 1,
            all: 1,
            rows,
            times: Times::of(&[], 0.0),
            flow_seconds_per_second: 0.0,
        };
        let rows = vec![
            row("a", Verdict::NotReproduced, Some(3.0), None, "Bursts."),
            row("b", Verdict::Reproduced, Some(1.0), None, "Bursts."),
            row("c", Verdict::NotReproduced, None, Some(1.5), "Bursts."),
            row("d", Verdict::NotReproducible, None, None, "No number."),
        ];
        let all = vec![row("e", Verdict::Reproduced, Some(1.0), None, "")];
        let paper = |name: &str, reproduced, not_reproduced, not_reproducible| Paper {
            paper: name.into(),
            reproduced,
            not_reproduced,
            not_reproducible,
            incomplete: 0,
        };
        Report {
            experiments: vec![one("x", "Nobody, table 1", rows), one("y", "Somebody", all)],
            papers: vec![paper("Nobody", 1, 2, 1), paper("Somebody", 1, 0, 0)],
        }
    }

    #[test]
    fn the_list_groups_rows_by_reason() {
        assert_eq!(
            list(&report()),
            "# Rows that are not reproduced\n\n## Nobody\n\n\
             * `x`: a (3 s, expected: at most 2); c (no value, expected: 1.5, at most 2): Bursts.\n\
             * `x`: d (not reproducible): No number.\n"
        );
    }

    #[test]
    fn the_summary_counts_rows_per_paper_and_experiment() {
        let text = summary(&report());
        assert!(text.contains("\n| Nobody | 1 | 2 | 1 | 0 |\n| Somebody | 1 | 0 | 0 | 0 |\n"), "{text}");
        assert!(text.ends_with(":\n\n* Nobody: `x` 3\n"), "{text}");
        assert!(!text.contains("Bursts"), "reasons are in the list only: {text}");
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
