//! Documents with tables of results between marks, and charts of results.
//!
//! `<!-- table: EXPERIMENT TABLE; AXIS=CHOICE -->` begins a table of an experiment, with any number of choices, and
//! `<!-- end of table -->` ends it. Everything else in a document is written by hand.

mod charts;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::experiment::Experiment;
use crate::record::Record;
use crate::table::{Grid, Measured};

const BEGIN: &str = "<!-- table: ";
const BEGIN_END: &str = " -->\n";
const END: &str = "<!-- end of table -->";

/// An experiment and its runs, complete or not.
#[derive(Debug)]
pub struct Source<'a> {
    experiment: &'a Experiment,
    records: &'a [Record],
    runs: u32,
    measured: Measured<'a>,
}

impl<'a> Source<'a> {
    /// Creates a source from the runs with the seeds from 1 to `runs`.
    #[must_use]
    pub fn new(experiment: &'a Experiment, records: &'a [Record], runs: u32) -> Self {
        Self { experiment, records, runs, measured: Measured::new(experiment, records, runs) }
    }

    /// Returns all tables that need no choice by a document, with headings, or `None` if there are none.
    #[must_use]
    pub fn tables(&self) -> Option<String> {
        let mut text = String::new();
        for table in &self.experiment.tables {
            if let Ok(grid) = table.fill(&self.measured, &[]) {
                text += &format!("## {}\n\n{}\n", table.title, grid.markdown(""));
            }
        }
        (!text.is_empty()).then(|| format!("# {}\n\n{text}", self.experiment.definition.title))
    }

    /// Returns the tables that are printed and on the page, with their headings.
    pub fn shown(&self) -> impl Iterator<Item = (&str, Grid)> {
        let shown = self.experiment.tables.iter().filter(|table| table.is_shown);
        shown.filter_map(|table| Some((table.title.as_str(), table.fill(&self.measured, &[]).ok()?)))
    }

    /// Returns a table with choices in addition to its own.
    ///
    /// # Errors
    /// Returns an error if there is no such table, axis or choice.
    pub fn table(&self, id: &str, at: &[(&str, &str)]) -> Result<Grid> {
        let table = self.experiment.tables.iter().find(|table| table.id == id);
        let table = table.with_context(|| format!("there is no table {id:?}"))?;
        table.fill(&self.measured, at).map_err(|what| anyhow!(what))
    }

    /// Returns a table by the text of its mark after the name of the experiment.
    fn marked(&self, mark: &str, old: &str) -> Result<String> {
        let mut parts = mark.split(';').map(str::trim);
        let id = parts.next().unwrap_or_default();
        let choice = |part: &'_ str| part.split_once('=').map(|(axis, choice)| (axis.to_owned(), choice.to_owned()));
        let at: Option<Vec<(String, String)>> = parts.map(choice).collect();
        let at = at.context("choices are written as AXIS=CHOICE")?;
        let at: Vec<(&str, &str)> = at.iter().map(|(axis, choice)| (axis.as_str(), choice.as_str())).collect();
        Ok(self.table(id, &at)?.markdown(old))
    }
}

/// Returns a document with its tables of these experiments filled. Cells of incomplete runs and tables of other
/// experiments remain as they are.
///
/// # Errors
/// Returns an error if a mark has no end, or names an unknown table, axis or choice.
pub fn filled(document: &str, sources: &[Source<'_>]) -> Result<String> {
    let (mut text, mut rest) = (String::new(), document);
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let parts = after.split_once(BEGIN_END).and_then(|(mark, after)| Some((mark, after.split_once(END)?)));
        let (mark, (old, after)) = parts.context("the mark of a table has no end")?;
        let (id, table) = mark.split_once(' ').with_context(|| format!("{mark:?} needs an experiment and a table"))?;
        let source = sources.iter().find(|source| source.experiment.definition.id.get_ref() == id);
        let new = match source {
            Some(source) => format!("\n{}\n", source.marked(table, old).with_context(|| mark.to_owned())?),
            None => old.to_owned(),
        };
        text += &format!("{before}{BEGIN}{mark}{BEGIN_END}{new}{END}");
        rest = after;
    }
    Ok(text + rest)
}

/// Returns the marks of a document: experiment and table, with the choices.
pub fn marks(document: &str) -> impl Iterator<Item = (&str, &str)> {
    let marks = document.split(BEGIN).skip(1).filter_map(|after| after.split_once(BEGIN_END));
    marks.filter_map(|(mark, _)| mark.split_once(' '))
}

/// Fills the tables in all Markdown files of a folder and its subfolders, and the charts in its JSON files. Returns the
/// files that were not current. With `check`, files are not changed.
///
/// # Errors
/// Returns an error of the system or of [`filled`], or if a chart names an unknown series, metric, axis or choice.
pub fn update(folder: &Path, sources: &[Source<'_>], check: bool) -> Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for path in markdown(folder)? {
        let told = || path.display().to_string();
        let old = fs::read_to_string(&path).with_context(told)?;
        let new = filled(&old, sources).with_context(told)?;
        if new != old {
            if !check {
                fs::write(&path, new).with_context(told)?;
            }
            changed.push(path);
        }
    }
    changed.extend(charts::update(folder, sources, check)?);
    Ok(changed)
}

/// Returns the Markdown files of a folder and its subfolders in alphabetical order.
///
/// # Errors
/// Returns an error of the system.
pub fn markdown(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(markdown(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read() {
        let document = "a\n<!-- table: x one; controller=none; at=20 Mb/s, 5 ms -->\n\nold\n<!-- end of table -->\nb\n";
        assert_eq!(marks(document).collect::<Vec<_>>(), [("x", "one; controller=none; at=20 Mb/s, 5 ms")]);
        assert_eq!(filled(document, &[]).unwrap(), document);
        assert!(filled("<!-- table: x one -->\nno end", &[]).is_err());
    }
}
