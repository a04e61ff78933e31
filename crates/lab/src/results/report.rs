//! Summary of a folder, created without running anything.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

use super::held::{Held, Results};
use super::tables::Times;
use super::{LIST, PAGE, PICTURES, TABLES, write};
use crate::definition::Kind;
use crate::documents::Source;
use crate::judge::{Counts, Judged, Numbers, Tally, paper};
use crate::page::{self, Section};
use crate::plot;
use crate::rule::Verdict;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) experiments: Vec<Reported>,
    /// The numbers of rows by verdict for each paper, in the order of the papers' names.
    pub(crate) papers: Vec<Paper>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Reported {
    pub(crate) experiment: String,
    pub(crate) title: String,
    pub(crate) source: String,
    pub(crate) program: String,
    pub(crate) ended: usize,
    pub(crate) all: usize,
    /// The judged rows, empty unless all runs exist.
    pub(crate) rows: Vec<Judged>,
    pub(crate) times: Times,
    pub(crate) flow_seconds_per_second: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Paper {
    /// The source of the experiments, without section, figure or table.
    pub(crate) paper: String,
    #[serde(flatten)]
    pub(crate) rows: Counts,
}

impl Report {
    pub(crate) fn of(results: &Results) -> Self {
        let experiments: Vec<Reported> = results.experiments.iter().map(Reported::of).collect();
        let all = results.experiments.iter().zip(&experiments).map(|(held, reported)| {
            let judged = held.is_complete().then_some(reported.rows.as_slice());
            (&held.experiment, judged)
        });
        let papers = Counts::by_paper(all);
        let papers = papers.into_iter().map(|(paper, rows)| Paper { paper, rows }).collect();
        Self { experiments, papers }
    }
}

impl Reported {
    fn of(held: &Held) -> Self {
        let definition = &held.experiment.definition;
        let times = Times::of(&held.records, held.times.map_or(0.0, |times| times.wall_seconds));
        Self {
            experiment: held.id().into(),
            title: definition.title.clone(),
            source: definition.source.clone(),
            program: held.kept.program.clone(),
            ended: held.records.len(),
            all: held.all(),
            rows: held.rows().unwrap_or_default(),
            flow_seconds_per_second: times.speed(),
            times,
        }
    }
}

/// Marks around the generated part of a document.
const MARKS: [&str; 2] = ["<!-- results -->", "<!-- end of results -->"];

/// Returns `document` with the part between the marks replaced by a summary of `report`, or `None` unless it has both
/// marks, once each and in order.
pub(crate) fn written(document: &str, report: &Report) -> Option<String> {
    let (before, rest) = document.split_once(MARKS[0])?;
    let (_, after) = rest.split_once(MARKS[1])?;
    if MARKS.iter().any(|mark| before.contains(mark) || after.contains(mark)) {
        return None;
    }
    Some(format!("{before}{}\n\n{}\n{}{after}", MARKS[0], summary(report), MARKS[1]))
}

/// Writes the rows of a folder that are not reproduced, with the reasons, to `not-reproduced.md` in the folder.
pub(crate) fn write_list(results: &Results, report: &Report) -> Result<()> {
    write::whole(&results.path.join(LIST), list(report).as_bytes())
}

/// Returns the numbers of rows per paper, and the experiments of each paper with the numbers of rows that are not
/// reproduced.
fn summary(report: &Report) -> String {
    let heads = "| source | claims reproduced | undecided | not | not reproducible | not run | robustness rows that hold \
                 | model rows that hold |";
    let mut text = format!("{heads}\n|---|---|---|---|---|---|---|---|\n");
    for paper in &report.papers {
        let Counts { claims, robustness, model } = paper.rows;
        let Tally { reproduced, undecided, not_reproduced, not_reproducible, incomplete } = claims;
        let counts =
            [reproduced, undecided, not_reproduced, not_reproducible, incomplete].map(|count| count.to_string());
        let others = [robustness, model].map(|tally| match tally.all() {
            0 => "\u{2013}".to_owned(),
            all => format!("{} of {all}", tally.reproduced),
        });
        let _ = writeln!(text, "| {} | {} | {} |", paper.paper, counts.join(" | "), others.join(" | "));
    }
    let mut lines = String::new();
    for (name, experiments) in by_paper(report) {
        let counts = experiments.iter().map(|one| format!("`{}` {}", one.experiment, missed(one).count()));
        let _ = writeln!(lines, "* {name}: {}", counts.collect::<Vec<_>>().join(", "));
    }
    if !lines.is_empty() {
        text += "\nNumber of rows per experiment that are undecided, not reproduced or not reproducible:\n\n";
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

/// Returns the rows of an experiment that are not reproduced, undecided or not reproducible.
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
    let paper = numbers(&row.paper_value);
    let wanted = if paper.is_empty() { row.rule.clone() } else { format!("{paper}, {}", row.rule) };
    let undecided = if row.verdict == Verdict::Undecided { "; undecided" } else { "" };
    let kind = if row.kind == Kind::Claim { String::new() } else { format!("; {}", row.kind) };
    let isolated =
        if row.isolated_by.is_empty() { String::new() } else { format!("; isolated by {}", row.isolated_by) };
    format!("{} ({}, expected: {wanted}{undecided}{kind}{isolated})", row.row, ours(row))
}

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

const KINDS: [&str; 2] = [".svg", ".xpl"];

/// Draws the pictures of all experiments in a folder and writes their tables and the page, replacing older ones.
/// Returns the path of the page.
pub(crate) fn illustrate(results: &Results) -> Result<PathBuf> {
    let mut all = Vec::new();
    let sources: Vec<Source<'_>> = results.experiments.iter().map(Held::source).collect();
    for (held, source) in results.experiments.iter().zip(&sources) {
        all.push(pictures(results, held)?);
        if let Some(tables) = source.tables() {
            write::whole(&results.path.join(held.id()).join(TABLES), tables.as_bytes())?;
        }
    }
    let rows: Vec<_> = results.experiments.iter().map(|held| held.rows().unwrap_or_default()).collect();
    let tables: Vec<Vec<_>> = sources.iter().map(|source| source.shown().collect()).collect();
    let mut sections = Vec::new();
    for (((held, rows), pictures), tables) in results.experiments.iter().zip(&rows).zip(&all).zip(&tables) {
        sections.push(Section {
            experiment: &held.experiment,
            rows,
            pictures,
            tables,
            ended: held.records.len(),
            runs: held.all(),
            took: Times::of(&held.records, 0.0).computed_seconds,
        });
    }
    let path = results.path.join(PAGE);
    write::whole(&path, page::html(&sections, &results.origins).as_bytes())?;
    Ok(path)
}

fn pictures(results: &Results, held: &Held) -> Result<Vec<(String, String)>> {
    let pictures = plot::draw(&held.experiment, &held.records);
    let path = results.path.join(held.id()).join(PICTURES);
    if !pictures.is_empty() {
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
    }
    for (file, text) in &pictures {
        write::whole(&path.join(file), text.as_bytes())?;
    }
    remove_others(&path, &pictures);
    Ok(pictures)
}

/// Removes pictures that the experiment does not define. Errors are ignored.
fn remove_others(path: &Path, pictures: &[(String, String)]) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_picture = KINDS.iter().any(|kind| name.ends_with(kind));
        if is_picture && !pictures.iter().any(|(file, _)| *file == name) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Intervals;

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
            paper: "Nobody".into(),
            claim: String::new(),
            kind: Kind::Claim,
            paper_value: Numbers::One(paper),
            ours: Numbers::One(ours),
            interval: Intervals::One(ours.map(|ours| [ours, ours])),
            margins: Vec::new(),
            rule: "at most 2".into(),
            verdict,
            reason: reason.into(),
            isolated_by: String::new(),
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
            rows: Counts {
                claims: Tally { reproduced, not_reproduced, not_reproducible, ..Tally::default() },
                ..Counts::default()
            },
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
        assert!(text.contains("\n| Nobody | 1 | 0 | 2 | 1 | 0 | \u{2013} | \u{2013} |\n| Somebody | 1 | 0 | 0 | 0 | 0 | \u{2013} | \u{2013} |\n"), "{text}");
        assert!(text.ends_with(":\n\n* Nobody: `x` 3\n"), "{text}");
        assert!(!text.contains("Bursts"), "reasons are in the list only: {text}");
    }

    #[test]
    fn only_text_between_the_marks_is_replaced() {
        let report = Report { experiments: Vec::new(), papers: Vec::new() };
        let document = "Before.\n<!-- results -->\nformer\n<!-- end of results -->\nAfter.\n";
        let text = written(document, &report).unwrap();
        assert!(
            text.starts_with("Before.\n<!-- results -->\n\n| source |")
                && text.ends_with("<!-- end of results -->\nAfter.\n")
        );
        assert!(!text.contains("former"));
        assert_eq!(written(&text, &report).as_ref(), Some(&text), "it can be done again");
        for wrong in ["", "<!-- results -->", "<!-- end of results --><!-- results -->"] {
            assert_eq!(written(wrong, &report), None);
        }
    }
}
