//! A folder of results, opened for writing.

use std::fs;
use std::path::{Path, PathBuf};

use super::lock::Lock;
use super::runs::{ByRun, RunFile};
use super::{DEFINITION, FORMAT, Kept, LAB, LOCK, Lab, ROWS, ROWS_CSV, RUNS, ResultsError, TIMES, VALUES_CSV, write};
use crate::experiment::Experiment;
use crate::shard::Shard;

/// A folder of results, locked against other writers as long as this exists.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    lab: Lab,
    _lock: Lock,
}

/// A request to store an experiment in a folder.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// Its text.
    pub text: &'a str,
    /// The program and the number of runs per cell.
    pub kept: &'a Kept,
}

impl Asked<'_> {
    fn id(&self) -> &str {
        self.experiment.definition.id.get_ref()
    }
}

impl Folder {
    /// Opens a folder for a whole sweep or a part of it, and creates it if it does not exist.
    ///
    /// # Errors
    /// Returns an error if the path is not a folder, if it contains other files or another part, or if another
    /// program writes to it.
    pub fn open(path: &Path, shard: Option<Shard>) -> Result<Self, ResultsError> {
        if path.is_file() {
            return Err(ResultsError::IsFile(path.to_owned()));
        }
        fs::create_dir_all(path).map_err(|error| ResultsError::io(path, error))?;
        if Lab::read(path)?.is_none() {
            is_empty(path)?;
        }
        let lock = Lock::take(path)?;
        let lab = Lab::read(path)?.unwrap_or(Lab { format: FORMAT, shard, ..Lab::default() });
        if lab.shard != shard {
            let words =
                |shard: Option<Shard>| shard.map_or("a whole sweep".into(), |shard| format!("part {shard} of a sweep"));
            return Err(ResultsError::Shard { path: path.to_owned(), there: words(lab.shard), asked: words(shard) });
        }
        Ok(Self { path: path.to_owned(), lab, _lock: lock })
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks whether an experiment can be started or continued here, without changing anything.
    ///
    /// # Errors
    /// Returns an error if the existing results are of another text or program, or have more runs than requested.
    pub fn check(&self, asked: Asked<'_>) -> Result<(), ResultsError> {
        let path = self.of(asked.id());
        let Some(there) = self.lab.experiments.get(asked.id()) else {
            return if path.exists() {
                Err(ResultsError::Foreign { path: self.path.clone(), file: asked.id().into() })
            } else {
                Ok(())
            };
        };
        let differs = |what: String| ResultsError::Differs { path: path.clone(), experiment: asked.id().into(), what };
        if there.blake3 != asked.kept.blake3 {
            let file = path.join(DEFINITION);
            let what = "the results are of another text, which differs in more than rows, plots and comments; it is in";
            return Err(differs(format!("{what} {}", file.display())));
        }
        if there.program != asked.kept.program {
            return Err(differs(format!("the results are by {}, and this is {}", there.program, asked.kept.program)));
        }
        if there.runs > asked.kept.runs {
            return Err(ResultsError::Fewer { path, there: there.runs, asked: asked.kept.runs });
        }
        if fs::read_to_string(path.join(DEFINITION)).is_ok_and(|text| !there.is_of(&text)) {
            return Err(differs(format!("{DEFINITION} has been changed since the runs")));
        }
        Ok(())
    }

    /// Removes the results of an experiment, and nothing else.
    ///
    /// # Errors
    /// Returns an error of the system, or an error if this program did not write these files.
    pub fn remove(&self, id: &str) -> Result<(), ResultsError> {
        let path = self.of(id);
        match (self.lab.experiments.contains_key(id), path.exists()) {
            (true, true) => fs::remove_dir_all(&path).map_err(|error| ResultsError::io(&path, error)),
            (false, true) => Err(ResultsError::Foreign { path: self.path.clone(), file: id.into() }),
            (_, false) => Ok(()),
        }
    }

    /// Stores the request and opens the file of runs. Tables made from fewer runs or for other rows are removed.
    ///
    /// # Errors
    /// Returns an error of the system, or an error if existing runs cannot be read.
    pub fn begin(&mut self, asked: Asked<'_>) -> Result<(ByRun, RunFile), ResultsError> {
        let path = self.of(asked.id());
        let definition = path.join(DEFINITION);
        let is_same_text = fs::read(&definition).is_ok_and(|text| text == asked.text.as_bytes());
        let entry = self.lab.experiments.insert(asked.id().into(), asked.kept.clone());
        if entry.as_ref() != Some(asked.kept) {
            write::json(&self.path.join(LAB), &self.lab)?;
        }
        if entry.as_ref() != Some(asked.kept) || !is_same_text {
            for made in [ROWS, ROWS_CSV, VALUES_CSV] {
                let _ = fs::remove_file(path.join(made));
            }
        }
        fs::create_dir_all(&path).map_err(|error| ResultsError::io(&path, error))?;
        if !is_same_text {
            write::whole(&definition, asked.text.as_bytes())?;
        }
        RunFile::open(&path.join(RUNS), asked.experiment)
    }

    /// Returns the folder of an experiment.
    #[must_use]
    pub fn of(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    /// Returns the path of an experiment's times.
    pub(super) fn times(&self, id: &str) -> PathBuf {
        self.of(id).join(TIMES)
    }
}

/// Checks that the folder is empty except for files left by a program that was killed at its start.
fn is_empty(path: &Path) -> Result<(), ResultsError> {
    for entry in fs::read_dir(path).map_err(|error| ResultsError::io(path, error))? {
        let file = entry.map_err(|error| ResultsError::io(path, error))?.file_name().to_string_lossy().into_owned();
        if file != LOCK && file != format!("{LAB}.tmp") {
            return Err(ResultsError::Foreign { path: path.to_owned(), file });
        }
    }
    Ok(())
}
