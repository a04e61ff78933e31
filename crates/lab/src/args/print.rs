//! Output of results as lines.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use serde_json::{Value, json};

use crate::definition::Kind;
use crate::documents::Source;
use crate::experiment::Experiment;
use crate::judge::{Judged, Numbers};
use crate::record::Record;
use crate::rule::Verdict;
use crate::stopwatch::Stopwatch;

/// Prints a line on standard output.
pub(super) fn out(line: &str) -> Result<()> {
    text(&format!("{line}\n"))
}

/// Prints a text on standard output, without a line end. A closed standard output, as in `list | head`, is not an error.
pub(super) fn text(text: &str) -> Result<()> {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Prints a line on standard error. Errors are ignored, because they could not be reported.
pub(super) fn note(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Returns the width of the terminal on standard output, or 80 if that is not a terminal.
pub(super) fn width() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stdout())
        && size.ws_col > 0
    {
        return size.ws_col.into();
    }
    80
}

/// Formats an entry of a list in lines of at most `width` columns. A wider word has its own line.
pub(super) fn entry(name: &str, text: &str, width: usize) -> String {
    const INDENT: usize = 24;
    let mut lines = format!("{name:<INDENT$}");
    let mut column = lines.chars().count();
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > INDENT && column + 1 + length > width {
            lines += &format!("\n{:INDENT$}", "");
            column = INDENT;
        }
        lines += &format!(" {word}");
        column += 1 + length;
    }
    lines
}

/// Prints rows, as text or JSON. Returns false if a claim is not reproduced.
pub(super) fn rows(rows: &[Judged], is_json: bool) -> Result<bool> {
    for row in rows {
        out(&if is_json { serde_json::to_string(row)? } else { line(row) })?;
    }
    Ok(rows.iter().all(Judged::is_well))
}

/// Prints the visible tables of an experiment, as text or JSON.
pub(super) fn tables(experiment: &Experiment, records: &[Record], runs: u32, is_json: bool) -> Result<()> {
    let id = experiment.id();
    for (title, grid) in Source::new(experiment, records, runs).shown() {
        let lines: Vec<Value> =
            grid.lines.iter().map(|(label, cells)| json!({ "label": label, "cells": cells })).collect();
        let told = json!({ "experiment": id, "table": title, "heads": grid.heads, "lines": lines });
        out(&if is_json { told.to_string() } else { format!("{title}\n{}", grid.columns()) })?;
    }
    Ok(())
}

pub(super) fn line(row: &Judged) -> String {
    let mut line = format!("{:<14} {:<16}", row.row, verdict(row.verdict));
    if row.kind != Kind::Claim {
        line += &format!(" ({})", row.kind);
    }
    if row.verdict != Verdict::NotReproducible {
        line += &format!(" {} {} (paper {}), {}", words(&row.ours), row.unit, words(&row.paper_value), row.rule);
    }
    if !row.reason.is_empty() {
        line += &format!(": {}", row.reason);
    }
    line
}

pub(super) const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Undecided => "undecided",
        Verdict::NotReproduced => "NOT reproduced",
        Verdict::NotReproducible => "not reproducible",
    }
}

pub(super) fn words(numbers: &Numbers) -> String {
    numbers.list().iter().copied().map(number).collect::<Vec<_>>().join(", ")
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

/// Progress line, which is overwritten on a terminal, and repeated at long intervals otherwise.
#[derive(Debug)]
pub(super) struct Progress {
    clock: Stopwatch,
    told: f64,
    is_terminal: bool,
}

impl Progress {
    /// Seconds between lines if not on a terminal.
    const SELDOM: f64 = 30.0;
    /// Seconds between updates on a terminal.
    const OFTEN: f64 = 0.2;

    pub(super) fn new() -> Self {
        Self { clock: Stopwatch::start(), told: 0.0, is_terminal: io::stderr().is_terminal() }
    }

    /// Shows the number of completed runs and of all runs, if an update is due. The remaining time follows from the
    /// share of the expected cost that is done.
    pub(super) fn tell(&mut self, ended: usize, all: usize, done: f64) {
        let now = self.clock.seconds();
        if now - self.told < if self.is_terminal { Self::OFTEN } else { Self::SELDOM } {
            return;
        }
        self.told = now;
        let left = duration(now * (1.0 - done) / done);
        let (begin, end) = if self.is_terminal { ("\r", "\x1b[K") } else { ("", "\n") };
        let _ = write!(io::stderr(), "{begin}{ended} of {all} runs, {left} left{end}");
    }

    /// Clears the line before other output.
    pub(super) fn clear(&self) {
        if self.is_terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_wrapped_between_words() {
        let indent = " ".repeat(25);
        let wide = "x".repeat(30);
        assert_eq!(entry("a", "one two three", 33), format!("a{}one two\n{indent}three", " ".repeat(24)));
        assert_eq!(entry("a", "one two three", 38), format!("a{}one two three", " ".repeat(24)));
        let expected = format!("a{}one\n{indent}{wide}\n{indent}two", " ".repeat(24));
        assert_eq!(entry("a", &format!("one {wide} two"), 33), expected);
    }

    #[test]
    fn durations_are_as_exact_as_they_are_short() {
        let told = [0.4, 41.0, 60.0, 185.0, 1200.0, 7500.0].map(duration);
        assert_eq!(told, ["0 s", "41 s", "1 min 0 s", "3 min 5 s", "20 min", "2 h 5 min"]);
    }
}
