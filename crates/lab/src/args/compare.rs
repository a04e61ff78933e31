//! The `compare` command.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use super::print;
use crate::judge::Numbers;
use crate::results::{Change, Comparison, MetricChange, Results, RowChange, compare};
use crate::rule::Verdict;

#[derive(Debug, Args)]
pub(super) struct Compare {
    /// First folder.
    before: PathBuf,
    /// Second folder.
    after: PathBuf,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(super) fn execute(&self) -> Result<bool> {
        let comparison = compare(&Results::read(&self.before)?, &Results::read(&self.after)?);
        if self.json {
            print::out(&serde_json::to_string(&comparison)?)?;
        } else {
            self.print(&comparison)?;
        }
        if comparison.is_empty() {
            bail!("there is nothing to compare: no experiment is in both folders");
        }
        Ok(comparison.lost().next().is_none())
    }

    fn print(&self, comparison: &Comparison) -> Result<()> {
        let Comparison { verdicts, rows, metrics, unlike } = comparison;
        section("verdicts", verdicts.iter().map(row))?;
        section("rows", rows.iter().filter(|row| row.change != Change::Same).map(row))?;
        section("metrics", metrics.iter().filter(|metric| metric.change != Change::Same).map(metric))?;
        let [before, after] = [&self.before, &self.after].map(|path| path.display());
        section(&format!("only in {before}"), unlike.only_before.iter().cloned())?;
        section(&format!("only in {after}"), unlike.only_after.iter().cloned())?;
        section("incomplete: values are not compared, and verdicts are unknown", unlike.incomplete.iter().cloned())?;
        section("different texts: compared where names are equal", unlike.other_text.iter().cloned())?;
        print::out(&counts("rows", verdicts.iter().chain(rows).map(|row| row.change)))?;
        print::out(&counts("metrics", metrics.iter().map(|metric| metric.change)))
    }
}

fn section(title: &str, lines: impl Iterator<Item = String>) -> Result<()> {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    print::out(title)?;
    for line in lines {
        print::out(&format!("  {line}"))?;
    }
    print::out("")
}

fn row(change: &RowChange) -> String {
    let RowChange { experiment, row, unit, before, after, ours, change, .. } = change;
    let verdict = |verdict: &Option<Verdict>| verdict.map_or("no row", print::verdict);
    let words = |ours: &Option<Numbers>| ours.as_ref().map_or("-".into(), print::words);
    let [was, is] = [words(&ours[0]), words(&ours[1])];
    let verdicts =
        if before == after { verdict(after).into() } else { format!("{} -> {}", verdict(before), verdict(after)) };
    format!("{:<8} {experiment} {row}: {verdicts}; {was} -> {is} {unit}", change.name())
}

fn metric(change: &MetricChange) -> String {
    let MetricChange { experiment, cell, metric, unit, medians, low, high, change } = change;
    let [was, is] = medians.map(print::number);
    let cell = if cell.is_empty() { String::new() } else { format!(" {cell}") };
    let difference = format!("{} to {}", print::number(*low), print::number(*high));
    format!("{:<8} {experiment}{cell} {metric}: {was} -> {is} {unit} (difference {difference})", change.name())
}

fn counts(what: &str, changes: impl Iterator<Item = Change> + Clone) -> String {
    let each = [Change::Better, Change::Worse, Change::Changed, Change::Same];
    let count = |change| format!("{} {}", changes.clone().filter(|other| *other == change).count(), change.name());
    format!("{what}: {}", each.map(count).join(", "))
}
