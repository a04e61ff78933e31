//! Summary of a folder, made without running anything.

use std::collections::BTreeMap;

use serde::Serialize;

use super::held::{Held, Results};
use super::tables::Times;
use crate::judge::Judged;
use crate::rule::Verdict;

/// Summary of a folder.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The experiments in the order of their identifiers.
    pub experiments: Vec<Reported>,
    /// The numbers of rows by verdict for each paper, in the order of the papers' names.
    pub papers: Vec<Paper>,
}

/// Summary of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Reported {
    /// The identifier.
    pub experiment: String,
    /// The one-line description.
    pub title: String,
    /// The paper, with section, figure or table.
    pub source: String,
    /// The program that ran it.
    pub program: String,
    /// Number of existing runs.
    pub ended: usize,
    /// Number of requested runs.
    pub all: usize,
    /// The judged rows, empty unless all runs exist.
    pub rows: Vec<Judged>,
    /// Times of the existing runs.
    pub times: Times,
    /// Simulated flow-seconds per second of computation.
    pub flow_seconds_per_second: f64,
}

/// Numbers of rows of a paper by verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paper {
    /// The source of the experiments, without section, figure or table.
    pub paper: String,
    /// Reproduced rows.
    pub reproduced: usize,
    /// Rows that are not reproduced.
    pub not_reproduced: usize,
    /// Rows that are not reproducible.
    pub not_reproducible: usize,
    /// Rows of experiments with missing runs.
    pub incomplete: usize,
}

impl Report {
    /// Summarizes a folder.
    #[must_use]
    pub fn of(results: &Results) -> Self {
        let experiments: Vec<Reported> = results.experiments.iter().map(Reported::of).collect();
        let mut papers: BTreeMap<String, Paper> = BTreeMap::new();
        for (held, reported) in results.experiments.iter().zip(&experiments) {
            let name = paper(&reported.source);
            let paper = papers.entry(name.clone()).or_insert(Paper { paper: name, ..Paper::default() });
            if held.is_complete() {
                paper.count(&reported.rows);
            } else {
                paper.incomplete += held.experiment.rows.len();
            }
        }
        Self { experiments, papers: papers.into_values().collect() }
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

impl Paper {
    fn count(&mut self, rows: &[Judged]) {
        for row in rows {
            match row.verdict {
                Verdict::Reproduced => self.reproduced += 1,
                Verdict::NotReproduced => self.not_reproduced += 1,
                Verdict::NotReproducible => self.not_reproducible += 1,
            }
        }
    }
}

/// Returns the part of a source before its table, figure or section.
pub(crate) fn paper(source: &str) -> String {
    const PLACES: [&str; 6] = ["table", "figure", "section", "fig.", "tab.", "page"];
    let is_place = |part: &str| PLACES.iter().any(|place| part.trim_start().to_lowercase().starts_with(place));
    let parts = source.split(',').take_while(|part| !is_place(part));
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_separated_from_places_in_them() {
        assert_eq!(paper("Leung, Yeung, ISCC 2004, figure 7"), "Leung, Yeung, ISCC 2004");
        assert_eq!(paper("NASA/TM-2000-1, Tables 3 and 4, page 9"), "NASA/TM-2000-1");
        assert_eq!(paper("nobody"), "nobody");
    }
}
