//! What a folder comes to, without running anything.

use std::collections::BTreeMap;

use serde::Serialize;

use super::held::{Held, Results};
use super::tables::Times;
use crate::judge::Judged;
use crate::rule::Verdict;

/// What a folder comes to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// In the order of their identifiers.
    pub experiments: Vec<Reported>,
    /// How many rows of each paper came to what; in the order of their names.
    pub papers: Vec<Paper>,
}

/// What an experiment comes to.
#[derive(Clone, Debug, Serialize)]
pub struct Reported {
    /// By what it is called.
    pub experiment: String,
    /// A line about it.
    pub title: String,
    /// The paper, and where in it.
    pub source: String,
    /// The program that ran it.
    pub program: String,
    /// Runs that are there.
    pub ended: usize,
    /// Runs that there are to be.
    pub all: usize,
    /// What came of its rows; none before all runs have ended.
    pub rows: Vec<Judged>,
    /// How long those took that are there.
    pub times: Times,
    /// Flow-seconds that were simulated in a second of a run.
    pub flow_seconds_per_second: f64,
}

/// How many rows of a paper came to what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paper {
    /// The experiments' source, without the place in it.
    pub paper: String,
    /// Rows that are as it says.
    pub reproduced: usize,
    /// Rows that are not.
    pub not_reproduced: usize,
    /// Rows that cannot be measured.
    pub not_reproducible: usize,
    /// Rows of experiments that have not all their runs.
    pub incomplete: usize,
}

impl Report {
    /// Of a folder.
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

/// A source up to where it names a table, a figure or a section.
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
    fn papers_are_told_from_places_in_them() {
        assert_eq!(paper("Leung, Yeung, ISCC 2004, figure 7"), "Leung, Yeung, ISCC 2004");
        assert_eq!(paper("NASA/TM-2000-1, Tables 3 and 4, page 9"), "NASA/TM-2000-1");
        assert_eq!(paper("nobody"), "nobody");
    }
}
