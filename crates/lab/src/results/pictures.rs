//! Drawing of a folder: pictures of each experiment, and a page of all.

use std::fs;
use std::path::{Path, PathBuf};

use super::held::{Held, Results};
use super::tables::Times;
use super::{PAGE, PICTURES, ResultsError, TABLES, write};
use crate::documents::Source;
use crate::page::{self, Section};
use crate::plot;

/// File extensions of pictures.
const KINDS: [&str; 2] = [".svg", ".xpl"];

/// Draws the pictures of all experiments in a folder and writes their tables and its page, replacing older ones. Returns the path of
/// the page.
///
/// # Errors
/// Returns an error of the system.
pub fn illustrate(results: &Results) -> Result<PathBuf, ResultsError> {
    let mut all = Vec::new();
    let sources: Vec<Source<'_>> = results.experiments.iter().map(Held::source).collect();
    for (held, source) in results.experiments.iter().zip(&sources) {
        all.push(pictures(results, held)?);
        if let Some(tables) = source.tables() {
            write::whole(&results.path.join(held.id()).join(TABLES), tables.as_bytes())?;
        }
    }
    let rows: Vec<_> = results.experiments.iter().map(|held| held.rows().unwrap_or_default()).collect();
    let tables: Vec<Vec<_>> = sources.iter().map(|source| source.shown().collect()).collect();
    let mut sections = Vec::new();
    for (((held, rows), pictures), tables) in results.experiments.iter().zip(&rows).zip(&all).zip(&tables) {
        sections.push(Section {
            experiment: &held.experiment,
            text: &held.text,
            rows,
            pictures,
            tables,
            ended: held.records.len(),
            runs: held.all(),
            took: Times::of(&held.records, 0.0).computed_seconds,
        });
    }
    let path = results.path.join(PAGE);
    write::whole(&path, page::html(&sections).as_bytes())?;
    Ok(path)
}

/// Draws the pictures of an experiment into its folder.
fn pictures(results: &Results, held: &Held) -> Result<Vec<(String, String)>, ResultsError> {
    let pictures = plot::draw(&held.experiment, &held.records);
    let path = results.path.join(held.id()).join(PICTURES);
    if !pictures.is_empty() {
        fs::create_dir_all(&path).map_err(|error| ResultsError::io(&path, error))?;
    }
    for (file, text) in &pictures {
        write::whole(&path.join(file), text.as_bytes())?;
    }
    remove_others(&path, &pictures);
    Ok(pictures)
}

/// Removes pictures that the experiment does not define. Errors are ignored.
fn remove_others(path: &Path, pictures: &[(String, String)]) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_picture = KINDS.iter().any(|kind| name.ends_with(kind));
        if is_picture && !pictures.iter().any(|(file, _)| *file == name) {
            let _ = fs::remove_file(entry.path());
        }
    }
}
