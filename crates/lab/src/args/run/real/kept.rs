//! Storage of runs in real time: one file per experiment, `ID.real.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::Line;
use super::took::Took;
use crate::experiment::Experiment;
use crate::results::{LAB, write};

/// Stored results of an experiment.
#[derive(Serialize)]
pub(super) struct Kept<'a> {
    pub(super) experiment: &'a str,
    pub(super) version: &'a str,
    /// The rows as printed by `--json`.
    pub(super) rows: &'a [Line],
    /// All runs, including those in cells without a row.
    pub(super) runs: &'a [Took],
}

/// Checks whether the experiments can be stored in a folder. It creates the folder, but changes nothing else.
pub(super) fn check(folder: &Path, experiments: &[Experiment], overwrite: bool) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    if folder.join(LAB).exists() {
        bail!("{} contains runs in virtual time; those over real sockets need another folder", folder.display());
    }
    for experiment in experiments {
        let path = file(folder, experiment.definition.id.get_ref());
        if !overwrite && path.exists() {
            bail!("{} exists; --overwrite replaces it", path.display());
        }
    }
    Ok(())
}

fn file(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.real.json"))
}

impl Kept<'_> {
    /// Writes the file atomically.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        Ok(write::json(&file(folder, self.experiment), self)?)
    }
}
