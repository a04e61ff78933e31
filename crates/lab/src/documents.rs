//! Documents with tables of results between marks, and charts of results.
//!
//! `<!-- table: EXPERIMENT TABLE; AXIS=CHOICE -->` begins a table of an experiment, with any number of choices, and
//! `<!-- end of table -->` ends it. Everything else in a document is written by hand.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow};
use longhaul_link::statistics::mean;

use crate::experiment::Experiment;
use crate::plot::{Chart, Origin};
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

    /// Returns all tables that do not need a choice by a document, with headings, or `None` if there are none.
    #[must_use]
    pub fn tables(&self) -> Option<String> {
        let mut text = String::new();
        for table in &self.experiment.tables {
            if let Ok(grid) = table.fill(&self.measured, &[]) {
                text += &format!("## {}\n\n{}\n", table.title(), grid.markdown(""));
            }
        }
        (!text.is_empty()).then(|| format!("# {}\n\n{text}", self.experiment.definition.title))
    }

    /// Returns the tables that are printed and on the page, with their headings.
    pub fn shown(&self) -> impl Iterator<Item = (&str, Grid)> {
        let shown = self.experiment.tables.iter().filter(|table| table.written.shown);
        shown.filter_map(|table| Some((table.title(), table.fill(&self.measured, &[]).ok()?)))
    }

    /// Returns a table with choices in addition to its own.
    ///
    /// # Errors
    /// Returns an error if there is no such table, axis or choice.
    pub fn table(&self, id: &str, at: &[(&str, &str)]) -> Result<Grid> {
        let table = self.experiment.tables.iter().find(|table| table.written.id.get_ref() == id);
        let table = table.with_context(|| format!("there is no table {id:?}"))?;
        table.fill(&self.measured, at).map_err(|what| anyhow!(what))
    }

    /// Returns the table that `mark` selects, which is the text of the mark after the experiment's name.
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
        let source = sources.iter().find(|source| source.experiment.id() == id);
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
/// files that were out of date. With `check`, files are not changed.
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
    changed.extend(update_charts(folder, sources, check)?);
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

/// Fills the charts in the JSON files of a folder and draws them. Returns the files that were out of date.
fn update_charts(folder: &Path, sources: &[Source<'_>], check: bool) -> Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let told = || path.display().to_string();
        let old = fs::read_to_string(&path).with_context(told)?;
        let mut chart: Chart = serde_json::from_str(&old).with_context(told)?;
        let Some(origin) = chart.from.clone() else { continue };
        let source = sources.iter().find(|source| source.experiment.id() == origin.experiment);
        let Some(source) = source else { continue };
        fill_chart(&mut chart, &origin, source).with_context(told)?;
        let new = chart.text().with_context(told)?;
        if new == old {
            continue;
        }
        if !check {
            fs::write(&path, new).with_context(told)?;
            fs::write(path.with_extension("svg"), chart.draw()).with_context(told)?;
        }
        changed.push(path);
    }
    changed.sort();
    Ok(changed)
}

/// Replaces the runs of all lines whose runs exist.
fn fill_chart(chart: &mut Chart, origin: &Origin, source: &Source<'_>) -> Result<()> {
    let definition = &source.experiment.definition;
    let Origin { series, scale, metric, .. } = origin;
    let place = definition.metric(metric).map_err(Error::msg)?;
    if !definition.series.contains_key(series) {
        return Err(anyhow!("there is no series {series:?}"));
    }
    for line in chart.lines.iter_mut().filter(|line| !line.at.is_empty()) {
        let at: Vec<(String, String)> = line.at.clone().into_iter().collect();
        let cells = source.experiment.cells_at(&at).map_err(|what| anyhow!(what))?;
        let of_line = |record: &&Record| cells.contains(&record.cell) && record.seed <= u64::from(source.runs);
        let records: Vec<&Record> = source.records.iter().filter(of_line).collect();
        if records.len() < cells.len() * source.runs as usize {
            continue;
        }
        let values: Vec<f64> = records.iter().filter_map(|record| *record.values.get(place)?).collect();
        let mean = mean(&values).with_context(|| format!("{metric} has no value in {:?}", line.label))?;
        line.name = format!("{}: {mean:.1} {}", line.label, definition.metrics[metric].unit);
        let points = |record: &&Record| {
            let points = record.series.get(series).into_iter().flatten().filter(|(time, _)| *time > 0.0);
            points.map(|(_, value)| (value * scale * 1e3).round() / 1e3).collect()
        };
        line.runs = records.iter().map(points).collect();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn marks_are_read() {
        let document = "a\n<!-- table: x one; controller=none; at=20 Mb/s, 5 ms -->\n\nold\n<!-- end of table -->\nb\n";
        assert_eq!(marks(document).collect::<Vec<_>>(), [("x", "one; controller=none; at=20 Mb/s, 5 ms")]);
        assert_eq!(filled(document, &[]).unwrap(), document);
        assert!(filled("<!-- table: x one -->\nno end", &[]).is_err());
    }

    const TEXT: &str = r#"id = "x"
title = "x"
source = "nobody"
runs = 2
quick-runs = 1
duration = "2s"
bottleneck = "--rate 1mbit --rtt 10ms"
axes = [{ name = "controller", choices = ["cubic", "new-reno"] }]
flows = [{ name = "x", congestion = "{controller}" }]
metrics = { goodput = { value = "goodput(x)", unit = "Mb/s" } }
series = { read = { value = "read(x)", unit = "bytes" } }
"#;

    const CHART: &str = r#"{"id":"x","title":"","about":"","caption":"","label":"read","unit":"kB","step":1.0,
"from":{"experiment":"x","series":"read","scale":0.001,"metric":"goodput"},
"lines":[{"name":"limit","runs":[[9.0]]},{"name":"old","label":"CUBIC","at":{"controller":"cubic"},"runs":[[1.0]]},
{"name":"other","label":"NewReno","at":{"controller":"new-reno"},"runs":[[1.0]]}]}"#;

    /// Lines without choices and lines with missing runs remain.
    #[test]
    fn lines_with_all_runs_are_replaced() {
        let experiment = Experiment::read("x.toml", TEXT).unwrap();
        let run = |cell, seed, read: f64| {
            let series = BTreeMap::from([("read".to_owned(), vec![(0.0, 0.0), (1.0, read), (2.0, 2.0 * read)])]);
            Record { cell, seed, values: vec![Some(read)], series, ..Record::default() }
        };
        let records = [run(0, 1, 1000.4), run(0, 2, 3000.0), run(1, 1, 5000.0)];
        let mut chart: Chart = serde_json::from_str(CHART).unwrap();
        let origin = chart.from.clone().unwrap();
        fill_chart(&mut chart, &origin, &Source::new(&experiment, &records, 2)).unwrap();
        let names: Vec<&str> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["limit", "CUBIC: 2000.2 Mb/s", "other"]);
        assert_eq!(chart.lines[1].runs, [[1.0, 2.001], [3.0, 6.0]]);
        assert_eq!((&chart.lines[0].runs, &chart.lines[2].runs), (&vec![vec![9.0]], &vec![vec![1.0]]));
        let again: Chart = serde_json::from_str(&chart.text().unwrap()).unwrap();
        assert_eq!(again.text().unwrap(), chart.text().unwrap());
        let unknown = Origin { metric: "rate".into(), ..origin };
        assert!(fill_chart(&mut chart, &unknown, &Source::new(&experiment, &records, 2)).is_err());
    }
}
