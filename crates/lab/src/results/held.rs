//! A folder of results, opened for reading.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::folder::{ByRun, both, read_origins, read_runs};
use super::tables::Times;
use super::{DAMAGED, DEFINITION, Lab, RUNS, TIMES, program};
use crate::documents::Source;
use crate::experiment::Experiment;
use crate::judge::{self, Judged};
use crate::origin::Origin;
use crate::record::Record;

#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) path: PathBuf,
    pub(crate) shard: Option<String>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) experiments: Vec<Held>,
}

#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// The experiment according to its text. Its rows and pictures may be newer than its runs.
    pub(crate) experiment: Experiment,
    pub(crate) kept: Kept,
    /// The existing runs, by cell and seed.
    pub(crate) records: Vec<Record>,
    pub(crate) times: Option<Times>,
}

impl Results {
    /// Reads a folder. Another program may be writing to it.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let lab = Lab::read(path)?
            .with_context(|| format!("{} has no lab.json: it is not a folder of results", path.display()))?;
        let held = lab.experiments.into_iter().map(|(id, kept)| Held::read(&path.join(id), kept));
        Ok(Self {
            path: path.to_owned(),
            shard: lab.shard,
            origins: read_origins(path),
            experiments: held.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Held> {
        self.experiments.iter().find(|held| held.id() == id)
    }
}

impl Held {
    fn read(path: &Path, kept: Kept) -> Result<Self> {
        let definition = path.join(DEFINITION);
        let text = fs::read_to_string(&definition).with_context(|| definition.display().to_string())?;
        if !kept.is_of(&text) {
            bail!("{}: it is not the text of the runs; {DAMAGED}", definition.display());
        }
        let experiment = Experiment::read(DEFINITION, &text).with_context(|| path.display().to_string())?;
        let (found, _) = read_runs(&path.join(RUNS), &experiment)?;
        let records = asked_for(found, &kept);
        Ok(Self { experiment, kept, records, times: Times::read(&path.join(TIMES)) })
    }

    pub(crate) fn id(&self) -> &str {
        self.experiment.id()
    }

    pub(crate) fn source(&self) -> Source<'_> {
        Source::new(&self.experiment, &self.records, self.kept.runs)
    }

    pub(crate) fn all(&self) -> usize {
        self.experiment.cells.len() * self.kept.runs as usize
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.records.len() == self.all()
    }

    /// Returns the judged rows, or `None` unless all runs exist.
    pub(crate) fn rows(&self) -> Option<Vec<Judged>> {
        self.is_complete().then(|| judge::judge(&self.experiment, &self.records, self.kept.runs))
    }
}

/// Returns the runs with the requested seeds.
pub(crate) fn asked_for(found: ByRun, kept: &Kept) -> Vec<Record> {
    found.into_values().filter(|record| kept.has(record.seed)).collect()
}

/// Fields of an experiment on which its runs do not depend: the number of runs, judging and drawing, and descriptions.
const AFTERWARDS: [&str; 10] =
    ["fitted", "title", "source", "runs", "quick-runs", "card-runs", "rows", "plots", "tables", "card"];

/// The identity of an experiment's runs, stored or requested.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Kept {
    pub(crate) program: String,
    /// BLAKE3 hash, in hexadecimal, of everything that the runs depend on: the text without comments and
    /// the fields that only later steps use.
    pub(crate) blake3: String,
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub(crate) first: u64,
    /// Number of runs per cell, with seeds starting at the first one.
    pub(crate) runs: u32,
}

const fn first() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_first(seed: &u64) -> bool {
    *seed == first()
}

impl Kept {
    pub(crate) fn new(text: &str, first: u64, runs: u32) -> Self {
        Self { program: program(), blake3: hash(text), first, runs }
    }

    /// Returns whether a run with this seed is requested.
    pub(crate) fn has(&self, seed: u64) -> bool {
        seed.checked_sub(self.first).is_some_and(|nth| nth < u64::from(self.runs))
    }

    /// Returns the union of both, with both programs.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let (first, last) = (self.first.min(other.first), self.last().max(other.last()));
        let runs = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
        Self { program: both(&self.program, &other.program), first, runs, ..self.clone() }
    }

    pub(crate) fn last(&self) -> u64 {
        self.first + u64::from(self.runs) - 1
    }

    pub(crate) fn is_of(&self, text: &str) -> bool {
        self.blake3 == hash(text)
    }
}

/// Returns whether two texts differ only in the choices on their axes and in fields on which runs do not depend.
pub(crate) fn differ_in_axes_only(one: &str, other: &str) -> bool {
    let without = |text: &str| {
        let mut table = text.parse::<toml::Table>().ok()?;
        table.retain(|field, _| field != "axes" && !AFTERWARDS.contains(&field));
        Some(table)
    };
    without(one).is_some_and(|one| Some(one) == without(other))
}

/// Hashes the fields on which the runs depend, or the whole text if it is not TOML.
fn hash(text: &str) -> String {
    let essence = text.parse::<toml::Table>().ok().and_then(|mut table| {
        table.retain(|field, _| !AFTERWARDS.contains(&field));
        serde_json::to_vec(&table).ok()
    });
    blake3::hash(essence.as_deref().unwrap_or(text.as_bytes())).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "id = 'x'\nruns = 3\nduration = '9s'\n[metrics]\na = 'goodput(x)'\n[[rows]]\nid = 'r'\n[[rows]]\nid = 's'\n";

    #[test]
    fn judgements_and_notes_do_not_affect_the_comparison() {
        let kept = Kept::new(TEXT, 1, 1);
        for (from, to) in
            [("", "# Why.\n"), ("runs = 3", "runs = 9"), ("'r'", "'q'"), ("id = 'x'\nruns = 3", "runs = 3\nid = 'x'")]
        {
            assert!(kept.is_of(&TEXT.replacen(from, to, 1)), "{to}");
        }
        for (from, to) in [
            ("'9s'", "'8s'"),
            ("goodput", "sent"),
            ("id = 'x'", "id = 'y'"),
            ("[metrics]", "add = { a = ['b'] }\n[metrics]"),
        ] {
            assert!(!kept.is_of(&TEXT.replacen(from, to, 1)), "{to}");
        }
        assert!(
            Kept::new("no = [toml", 1, 1).is_of("no = [toml") && !Kept::new("no = [toml", 1, 1).is_of("nor = [toml")
        );
    }
}
