//! The `chart` command.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use super::print;
use crate::plot::Chart;

#[derive(Debug, Args)]
pub(super) struct Draw {
    /// JSON file of the measurements.
    file: PathBuf,
}

impl Draw {
    pub(super) fn execute(&self) -> Result<()> {
        let name = || self.file.display().to_string();
        let text = fs::read_to_string(&self.file).with_context(name)?;
        let chart: Chart = serde_json::from_str(&text).with_context(name)?;
        print::text(&chart.draw())
    }
}
