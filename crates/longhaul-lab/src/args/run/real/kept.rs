//! Where runs in real time are kept: a file for each experiment, `ID.real.json`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Serialize;

use super::Line;
use super::took::Took;
use crate::experiment::Experiment;
use crate::results::{LAB, write};

/// What is kept of an experiment.
#[derive(Serialize)]
pub(super) struct Kept<'a> {
    pub(super) experiment: &'a str,
    pub(super) version: &'a str,
    /// As `--json` prints them.
    pub(super) rows: &'a [Line],
    /// All runs, also those of cells without a row.
    pub(super) runs: &'a [Took],
}

/// Whether the experiments can be kept in a folder. Changes nothing but that it makes the folder.
pub(super) fn check(folder: &Path, experiments: &[Experiment], overwrite: bool) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
    if folder.join(LAB).exists() {
        bail!("{} holds runs in virtual time; those over real sockets need another folder", folder.display());
    }
    for experiment in experiments {
        let path = file(folder, experiment.definition.id.get_ref());
        if !overwrite && path.exists() {
            bail!("{} is there; --overwrite replaces it", path.display());
        }
    }
    Ok(())
}

fn file(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.real.json"))
}

impl Kept<'_> {
    /// Writes the file, whole or not at all.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        Ok(write::json(&file(folder, self.experiment), self)?)
    }
}
