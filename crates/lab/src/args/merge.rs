//! The `merge` command.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use super::print;
use crate::results::{self, Results};

#[derive(Debug, Args)]
pub(super) struct Merge {
    /// Folder for the whole sweep: a new one, or the result of an earlier merge.
    out: PathBuf,
    /// Folders of the parts.
    #[arg(required = true, value_name = "DIR")]
    parts: Vec<PathBuf>,
    /// Print one JSON object per row.
    #[arg(long)]
    json: bool,
}

impl Merge {
    pub(super) fn execute(&self) -> Result<bool> {
        let joined = results::merge(&self.out, &self.parts)?;
        let mut all_well = true;
        for one in &joined {
            match &one.rows {
                Some(rows) => all_well &= print::rows(rows, self.json)?,
                None => {
                    all_well = false;
                    print::note(&format!(
                        "{}: {} of {} runs exist, so that no row is judged",
                        one.experiment, one.ended, one.all
                    ));
                }
            }
        }
        let page = results::illustrate(&Results::read(&self.out)?)?;
        print::note(&format!("pictures and rows: {}", page.display()));
        Ok(all_well)
    }
}
