//! Merging of the parts of a sweep.

use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};

use super::Kept;
use super::folder::{ByRun, Folder, Given, put};
use super::held::{Held, Results, asked_for};
use super::tables::write_tables;
use crate::record::Record;

/// Adds the runs of the folders to one folder for the whole sweep, and judges the complete experiments. An experiment
/// may be present in only some of the folders.
pub(crate) fn merge(out: &Path, parts: &[PathBuf], given: Given) -> Result<()> {
    let parts: Vec<Results> = parts.iter().map(|path| Results::read(path)).collect::<Result<_, _>>()?;
    let mut whole: Vec<Held> = Vec::new();
    for part in &parts {
        for held in &part.experiments {
            match whole.iter_mut().find(|known| known.id() == held.id()) {
                Some(known) => known.kept = together(known, held, part, given)?,
                None => whole.push(held.clone()),
            }
        }
    }
    // Nothing is written unless all parts fit together.
    let unions = whole.iter().map(|held| union(held.id(), &parts)).collect::<Result<Vec<_>, _>>()?;
    let mut folder = Folder::open(out, None)?;
    for held in &mut whole {
        held.kept = folder.widened(held.id(), &held.kept);
        folder.check(&held.experiment, &held.kept, given)?;
    }
    for part in &parts {
        folder.note_origins(&part.origins)?;
    }
    whole.iter().zip(unions).try_for_each(|(held, union)| join(&mut folder, held, &union, &parts))
}

/// Returns the runs of two parts of one experiment, or an error if they are not parts of one sweep. Parts with seeds that
/// follow each other are one sweep of all these seeds.
fn together(one: &Held, other: &Held, part: &Results, given: Given) -> Result<Kept> {
    let unlike = |what| unlike(&part.path, what);
    let (id, Kept { program, runs, .. }) = (one.id(), &one.kept);
    if one.experiment.text != other.experiment.text {
        return Err(unlike(format!("the texts of {id} differ")));
    }
    if given == Given::OneProgram && *program != other.kept.program {
        let what = format!("{id} was run by {program} and by {}; --any-program merges them", other.kept.program);
        return Err(unlike(what));
    }
    if one.kept.first == other.kept.first && *runs != other.kept.runs {
        return Err(unlike(format!("{id} has {runs} and {} runs per cell", other.kept.runs)));
    }
    Ok(one.kept.with(&other.kept))
}

fn union(id: &str, parts: &[Results]) -> Result<ByRun> {
    let mut all = ByRun::new();
    for part in parts {
        for record in part.find(id).into_iter().flat_map(|held| &held.records) {
            put(&mut all, record).ok_or_else(|| other_numbers(&part.path, id, record))?;
        }
    }
    Ok(all)
}

fn other_numbers(path: &Path, id: &str, Record { cell, seed, .. }: &Record) -> Error {
    unlike(path, format!("{id}, cell {cell}, seed {seed} has different results"))
}

fn unlike(path: &Path, what: String) -> Error {
    anyhow!("{}: {what}; only parts of one sweep can be merged", path.display())
}

/// Adds the runs to the folder, and judges the experiment if all of them exist.
fn join(folder: &mut Folder, held: &Held, union: &ByRun, parts: &[Results]) -> Result<()> {
    let (id, runs) = (held.id(), held.kept.runs);
    let (mut found, mut file) = folder.begin(&held.experiment, &held.kept)?;
    for record in union.values() {
        if put(&mut found, record).ok_or_else(|| other_numbers(&folder.path, id, record))? {
            file.add(record)?;
        }
    }
    let records = asked_for(found, &held.kept);
    // If the parts ran at the same time, the longest one determines the total time.
    let walls = parts.iter().filter_map(|part| part.find(id)?.times).map(|times| times.wall_seconds);
    folder.set_times(id, &records, walls.fold(0.0, f64::max))?;
    if records.len() == held.all() {
        write_tables(folder, &held.experiment, &records, runs)?;
    }
    Ok(())
}
