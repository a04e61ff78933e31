//! A folder that is read.

use std::fs;
use std::path::{Path, PathBuf};

use super::runs::{self, ByRun};
use super::tables::Times;
use super::{DEFINITION, Kept, Lab, RUNS, ResultsError, TIMES};
use crate::experiment::Experiment;
use crate::judge::{self, Judged};
use crate::record::Record;
use crate::shard::Shard;

/// What a folder holds.
#[derive(Clone, Debug)]
pub struct Results {
    /// Where it is.
    pub path: PathBuf,
    /// The part that it has, if it is one of several.
    pub shard: Option<Shard>,
    /// In the order of their identifiers.
    pub experiments: Vec<Held>,
}

/// What is there of an experiment.
#[derive(Clone, Debug)]
pub struct Held {
    /// As its text has it, whose rows and pictures may be newer than its runs.
    pub experiment: Experiment,
    /// Its text.
    pub text: String,
    /// What was asked for.
    pub kept: Kept,
    /// The runs that are there, by cell and seed.
    pub records: Vec<Record>,
    /// How long it took, where that was written.
    pub times: Option<Times>,
}

impl Results {
    /// Reads a folder, also while somebody writes to it.
    ///
    /// # Errors
    /// It is no folder of results, or one of another format, or was damaged.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        let lab = Lab::read(path)?.ok_or_else(|| ResultsError::NoResults(path.to_owned()))?;
        let held = lab.experiments.into_iter().map(|(id, kept)| Held::read(&path.join(id), kept));
        Ok(Self { path: path.to_owned(), shard: lab.shard, experiments: held.collect::<Result<_, _>>()? })
    }

    /// What it has of an experiment.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Held> {
        self.experiments.iter().find(|held| held.id() == id)
    }
}

impl Held {
    fn read(path: &Path, kept: Kept) -> Result<Self, ResultsError> {
        let definition = path.join(DEFINITION);
        let text = fs::read_to_string(&definition).map_err(|error| ResultsError::io(&definition, error))?;
        if !kept.is_of(&text) {
            let what = "it is not what ran".into();
            return Err(ResultsError::Damaged { path: definition, what });
        }
        let experiment = Experiment::read(DEFINITION, &text)
            .map_err(|fault| ResultsError::Definition { path: path.to_owned(), fault })?;
        let (found, _) = runs::read(&path.join(RUNS), &experiment)?;
        let records = asked_for(found, kept.runs);
        Ok(Self { experiment, text, kept, records, times: Times::read(&path.join(TIMES)) })
    }

    /// By what it is called.
    #[must_use]
    pub fn id(&self) -> &str {
        self.experiment.definition.id.get_ref()
    }

    /// How many runs there are to be.
    #[must_use]
    pub fn all(&self) -> usize {
        self.experiment.cells.len() * self.kept.runs as usize
    }

    /// Whether all are there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.records.len() == self.all()
    }

    /// What came of its rows; none before all runs are there.
    #[must_use]
    pub fn rows(&self) -> Option<Vec<Judged>> {
        self.is_complete().then(|| judge::judge(&self.experiment, &self.records, self.kept.runs))
    }
}

/// Those that are asked for, in order.
pub(super) fn asked_for(found: ByRun, runs: u32) -> Vec<Record> {
    found.into_values().filter(|record| record.seed <= u64::from(runs)).collect()
}
