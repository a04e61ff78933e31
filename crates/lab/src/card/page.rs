//! The page.

use serde::Serialize;

use super::{Column, Line};
use crate::table::Grid;

/// A part of the card: an experiment and its lines.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Part {
    pub(crate) part: String,
    pub(crate) title: String,
    pub(crate) runs: u32,
    pub(crate) lines: Vec<Line>,
}

impl Part {
    /// Returns the lines as a table: for each controller its value with the interval, and after the first one the
    /// difference from it.
    pub(crate) fn grid(&self) -> Grid {
        let has_bars = self.lines.iter().any(|line| line.bar.is_some());
        let names = self.lines.first().map_or(&[][..], |line| line.columns.as_slice());
        let mut heads = Vec::new();
        for (nth, column) in names.iter().enumerate() {
            heads.push(column.controller.clone());
            heads.extend((nth > 0).then(|| "difference".to_owned()));
        }
        heads.extend(["bar".to_owned(), "missed by".to_owned()].into_iter().filter(|_| has_bars));
        let cells = |line: &Line| {
            let mut cells = Vec::new();
            for (nth, column) in line.columns.iter().enumerate() {
                cells.push(Some(value(column, line.digits)));
                cells.extend((nth > 0).then(|| Some(difference(column, line.digits))));
            }
            if has_bars {
                cells.extend([line.bar.clone().unwrap_or_default(), missed(line)].map(Some));
            }
            cells
        };
        let label = |line: &Line| match line.unit.as_str() {
            "" => line.title.clone(),
            unit => format!("{}, {unit}", line.title),
        };
        Grid { heads, lines: self.lines.iter().map(|line| (label(line), cells(line))).collect() }
    }

    pub(crate) fn heading(&self) -> String {
        format!("{} ({}, {} runs per cell)", self.title, self.part, self.runs)
    }
}

fn value(column: &Column, digits: usize) -> String {
    let Some(value) = column.value else { return "-".into() };
    match column.interval {
        Some([low, high]) => format!("{value:.digits$} ({low:.digits$} to {high:.digits$})"),
        None => format!("{value:.digits$}"),
    }
}

fn difference(column: &Column, digits: usize) -> String {
    let Some(difference) = column.difference else { return "-".into() };
    let word = match column.is_better {
        Some(true) => " better",
        Some(false) => " worse",
        None => "",
    };
    format!("{difference:+.digits$}{word}")
}

/// Returns the controllers that miss the bar of a line.
fn missed(line: &Line) -> String {
    let missed: Vec<&str> =
        line.columns.iter().filter(|one| one.meets == Some(false)).map(|one| &*one.controller).collect();
    let is_judged = line.columns.iter().any(|column| column.meets.is_some());
    match (line.bar.is_some(), is_judged) {
        (true, false) => "not judged".into(),
        (true, true) if missed.is_empty() => "none".into(),
        _ => missed.join(", "),
    }
}

/// Returns a sentence per controller: how many lines are better and worse than with the first one, and how many bars it
/// misses.
pub(crate) fn counts(parts: &[Part]) -> Vec<String> {
    let lines = || parts.iter().flat_map(|part| &part.lines);
    let names = lines().next().map_or(&[][..], |line| line.columns.as_slice());
    let count = |nth: usize, is: fn(&Column) -> bool| {
        lines().filter_map(|line| line.columns.get(nth)).filter(|column| is(column)).count()
    };
    let sentence = |(nth, column): (usize, &Column)| {
        let (judged, missed) = (count(nth, |one| one.meets.is_some()), count(nth, |one| one.meets == Some(false)));
        let [better, worse] =
            [count(nth, |one| one.is_better == Some(true)), count(nth, |one| one.is_better == Some(false))];
        let told = match nth {
            0 => String::new(),
            _ => format!(
                "{better} lines better and {worse} worse than {}, of {}; ",
                names[0].controller,
                lines().count()
            ),
        };
        format!("{}: {told}misses {missed} of {judged} bars", column.controller)
    };
    names.iter().enumerate().map(sentence).collect()
}
