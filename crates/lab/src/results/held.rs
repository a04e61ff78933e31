//! A folder of results, opened for reading.

use std::fs;
use std::path::{Path, PathBuf};

use super::runs::{self, ByRun};
use super::tables::Times;
use super::{DEFINITION, Kept, Lab, RUNS, ResultsError, TIMES};
use crate::documents::Source;
use crate::experiment::Experiment;
use crate::judge::{self, Judged};
use crate::record::Record;
use crate::shard::Shard;

/// The contents of a folder.
#[derive(Clone, Debug)]
pub struct Results {
    /// The path of the folder.
    pub path: PathBuf,
    /// The part of a sweep, if it is a part.
    pub shard: Option<Shard>,
    /// The experiments in the order of their identifiers.
    pub experiments: Vec<Held>,
}

/// The results of an experiment.
#[derive(Clone, Debug)]
pub struct Held {
    /// The experiment as in its text. Its rows and pictures may be newer than its runs.
    pub experiment: Experiment,
    /// Its text.
    pub text: String,
    /// The program and the requested number of runs.
    pub kept: Kept,
    /// The existing runs, by cell and seed.
    pub records: Vec<Record>,
    /// The times, if they were stored.
    pub times: Option<Times>,
}

impl Results {
    /// Reads a folder. Another program may be writing to it.
    ///
    /// # Errors
    /// Returns an error if it is not a folder of results, has another format, or is damaged.
    pub fn read(path: &Path) -> Result<Self, ResultsError> {
        let lab = Lab::read(path)?.ok_or_else(|| ResultsError::NoResults(path.to_owned()))?;
        let held = lab.experiments.into_iter().map(|(id, kept)| Held::read(&path.join(id), kept));
        Ok(Self { path: path.to_owned(), shard: lab.shard, experiments: held.collect::<Result<_, _>>()? })
    }

    /// Returns the results of an experiment.
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
            let what = "it is not the text of the runs".into();
            return Err(ResultsError::Damaged { path: definition, what });
        }
        let experiment = Experiment::read(DEFINITION, &text)
            .map_err(|fault| ResultsError::Definition { path: path.to_owned(), fault })?;
        let (found, _) = runs::read(&path.join(RUNS), &experiment)?;
        let records = asked_for(found, kept.runs);
        Ok(Self { experiment, text, kept, records, times: Times::read(&path.join(TIMES)) })
    }

    /// Returns the identifier of the experiment.
    #[must_use]
    pub fn id(&self) -> &str {
        self.experiment.definition.id.get_ref()
    }

    /// Returns the runs as a source of tables.
    #[must_use]
    pub fn source(&self) -> Source<'_> {
        Source::new(&self.experiment, &self.records, self.kept.runs)
    }

    /// Returns the requested number of runs in all cells.
    #[must_use]
    pub fn all(&self) -> usize {
        self.experiment.cells.len() * self.kept.runs as usize
    }

    /// Returns whether all runs exist.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.records.len() == self.all()
    }

    /// Returns the judged rows, or `None` unless all runs exist.
    #[must_use]
    pub fn rows(&self) -> Option<Vec<Judged>> {
        self.is_complete().then(|| judge::judge(&self.experiment, &self.records, self.kept.runs))
    }
}

/// Returns the requested runs, in order.
pub(super) fn asked_for(found: ByRun, runs: u32) -> Vec<Record> {
    found.into_values().filter(|record| record.seed <= u64::from(runs)).collect()
}
