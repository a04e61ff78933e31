//! The bench `estimates`: what the estimators find. What it measures is said in `benches/estimates.rs`.

mod active;
mod pages;
mod passive;

use anyhow::{Result, bail};

use crate::generated::{Task, settle};
use crate::report::write_json;

/// How the documentation is written.
const COMMAND: &str = "cargo bench --bench estimates -- --write";

/// Runs the bench. `target_tmpdir`: see [`write_json`].
///
/// # Errors
/// An unknown argument, results or pages that cannot be written, or pages that say something else.
pub fn main(target_tmpdir: &str) -> Result<()> {
    let task = Task::from_args()?;
    if task.is_quick {
        bail!("there is nothing quick here");
    }
    let (active, passive) = (active::measure()?, passive::measure()?);
    let pages = pages::render(&active, &passive)?;
    if let Some(whole) = pages.first() {
        print!("{}", whole.text);
    }
    write_json(target_tmpdir, "estimates.json", &(&active, &passive))?;
    settle(&pages, task.mode, COMMAND)
}
