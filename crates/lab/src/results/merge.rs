//! Merging of the parts of a sweep.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};

use super::Kept;
use super::folder::{Asked, ByRun, Folder};
use super::held::{Held, Results, asked_for};
use super::tables::write_tables;
use crate::judge::Judged;
use crate::record::Record;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Joined {
    pub(crate) experiment: String,
    pub(crate) ended: usize,
    pub(crate) all: usize,
    pub(crate) rows: Option<Vec<Judged>>,
}

/// Adds the runs of the folders to one folder for the whole sweep, and judges the complete experiments.
pub(crate) fn merge(out: &Path, parts: &[PathBuf]) -> Result<Vec<Joined>> {
    let parts: Vec<Results> = parts.iter().map(|path| Results::read(path)).collect::<Result<_, _>>()?;
    let Some((first, others)) = parts.split_first() else { return Ok(Vec::new()) };
    for other in others {
        alike(first, other)?;
    }
    // Nothing is written unless all parts fit together.
    let unions = first.experiments.iter().map(|held| union(held.id(), &parts)).collect::<Result<Vec<_>, _>>()?;
    let mut folder = Folder::open(out, None)?;
    for held in &first.experiments {
        folder.check(asked(held))?;
    }
    first.experiments.iter().zip(unions).map(|(held, union)| join(&mut folder, held, union, &parts)).collect()
}

fn asked(held: &Held) -> Asked<'_> {
    Asked { experiment: &held.experiment, text: &held.text, kept: &held.kept }
}

/// Checks whether two folders are parts of one sweep.
fn alike(a: &Results, b: &Results) -> Result<()> {
    let unlike = |what| unlike(&a.path, &b.path, what);
    let missing = |of: &Results, other: &Results| {
        let id = of.experiments.iter().map(Held::id).find(|id| other.find(id).is_none())?;
        Some(format!("only {} has {id}", of.path.display()))
    };
    if let Some(what) = missing(a, b).or_else(|| missing(b, a)) {
        return Err(unlike(what));
    }
    for (one, other) in a.experiments.iter().zip(&b.experiments) {
        let (id, Kept { program, runs, .. }) = (one.id(), &one.kept);
        if one.text != other.text {
            return Err(unlike(format!("the texts of {id} differ")));
        }
        if *program != other.kept.program {
            return Err(unlike(format!("{id} was run by {program} and by {}", other.kept.program)));
        }
        if *runs != other.kept.runs {
            return Err(unlike(format!("{id} has {runs} and {} runs per cell", other.kept.runs)));
        }
    }
    Ok(())
}

fn union(id: &str, parts: &[Results]) -> Result<ByRun> {
    let mut all: BTreeMap<(usize, u64), (&Path, &Record)> = BTreeMap::new();
    for part in parts {
        for record in part.find(id).into_iter().flat_map(|held| &held.records) {
            let (path, known) = *all.entry((record.cell, record.seed)).or_insert((&part.path, record));
            if !known.agrees(record) {
                return Err(other_numbers(id, record, path, &part.path));
            }
        }
    }
    Ok(all.into_iter().map(|(run, (_, record))| (run, record.clone())).collect())
}

fn other_numbers(id: &str, record: &Record, a: &Path, b: &Path) -> Error {
    unlike(a, b, format!("{id}, cell {}, seed {} has different results", record.cell, record.seed))
}

fn unlike(a: &Path, b: &Path, what: String) -> Error {
    anyhow!("{} and {}: {what}; only parts of one sweep can be merged", a.display(), b.display())
}

fn join(folder: &mut Folder, held: &Held, union: ByRun, parts: &[Results]) -> Result<Joined> {
    let (id, runs) = (held.id(), held.kept.runs);
    let (mut found, mut file) = folder.begin(asked(held))?;
    for (run, record) in union {
        match found.get(&run) {
            Some(known) if !known.agrees(&record) => {
                return Err(other_numbers(id, &record, folder.path(), Path::new("the parts")));
            }
            Some(_) => {}
            None => {
                file.add(&record)?;
                found.insert(run, record);
            }
        }
    }
    let records = asked_for(found, runs);
    // If the parts ran at the same time, the longest one determines the total time.
    let walls = parts.iter().filter_map(|part| part.find(id)?.times).map(|times| times.wall_seconds);
    folder.set_times(id, &records, walls.fold(0.0, f64::max))?;
    let (ended, all) = (records.len(), held.all());
    let rows = if ended == all { Some(write_tables(folder, &held.experiment, &records, runs)?) } else { None };
    Ok(Joined { experiment: id.into(), ended, all, rows })
}
