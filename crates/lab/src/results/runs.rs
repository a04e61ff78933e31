//! `runs.jsonl`: one line per run, in the order in which the runs ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::ResultsError;
use crate::experiment::Experiment;
use crate::record::Record;

/// Runs by cell and seed, regardless of their order in the file.
pub(super) type ByRun = BTreeMap<(usize, u64), Record>;

/// The file of an experiment's runs, open for appending.
#[derive(Debug)]
pub struct RunFile {
    path: PathBuf,
    file: File,
}

impl RunFile {
    /// Returns the existing runs and the file opened for appending. An incomplete last line, as left by a killed
    /// program, is cut off.
    pub(super) fn open(path: &Path, experiment: &Experiment) -> Result<(ByRun, Self), ResultsError> {
        let wrong = |error| ResultsError::io(path, error);
        let (runs, whole) = read(path, experiment)?;
        let file = File::options().create(true).append(true).open(path).map_err(wrong)?;
        file.set_len(whole).map_err(wrong)?;
        Ok((runs, Self { path: path.to_owned(), file }))
    }

    /// Appends a run with a single write.
    ///
    /// # Errors
    /// Returns an error of the system, for example if the disk is full.
    pub fn add(&mut self, record: &Record) -> Result<(), ResultsError> {
        let line = serde_json::to_string(record).map_err(io::Error::from);
        let written = line.and_then(|line| self.file.write_all((line + "\n").as_bytes()));
        written.map_err(|error| ResultsError::io(&self.path, error))
    }
}

/// Returns the runs in a file, and the number of bytes in complete lines. Without a file, there are none.
pub(super) fn read(path: &Path, experiment: &Experiment) -> Result<(ByRun, u64), ResultsError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(|error| ResultsError::io(path, error))?,
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut runs = ByRun::new();
    for (number, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        add(&mut runs, line, experiment).map_err(|what| ResultsError::Damaged {
            path: path.to_owned(),
            what: format!("line {}: {what}", number + 1),
        })?;
    }
    Ok((runs, whole as u64))
}

fn add(runs: &mut ByRun, line: &[u8], experiment: &Experiment) -> Result<(), String> {
    let record: Record = serde_json::from_slice(line).map_err(|error| format!("not a run ({error})"))?;
    let Record { cell, seed, .. } = record;
    let (cells, metrics) = (experiment.cells.len(), experiment.definition.metrics.len());
    if cell >= cells || seed == 0 || record.values.len() != metrics {
        let has = record.values.len();
        return Err(format!(
            "cell {cell}, seed {seed}, {has} values is not a run of {cells} cells and {metrics} metrics"
        ));
    }
    match runs.get(&(cell, seed)) {
        Some(other) if !other.agrees(&record) => {
            Err(format!("cell {cell}, seed {seed} occurs twice with different results"))
        }
        Some(_) => Ok(()),
        None => {
            runs.insert((cell, seed), record);
            Ok(())
        }
    }
}
