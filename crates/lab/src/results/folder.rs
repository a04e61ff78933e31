//! A folder of results, opened for writing.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};

use super::{
    DAMAGED, DEFINITION, FORMAT, Kept, LAB, LOCK, Lab, ORIGINS, ROWS, ROWS_CSV, RUNS, TIMES, VALUES_CSV, write,
};
use crate::experiment::Experiment;
use crate::origin::Origin;
use crate::record::Record;

/// A folder of results, locked against other writers as long as this exists.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    lab: Lab,
    _lock: Lock,
}

impl Folder {
    /// Opens a folder for a whole sweep or a part of it, and creates it if it does not exist.
    pub(crate) fn open(path: &Path, part: Option<String>) -> Result<Self> {
        if path.is_file() {
            bail!("{} is a file; name a folder for results", path.display());
        }
        fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        if Lab::read(path)?.is_none() {
            is_empty(path)?;
        }
        let lock = Lock::take(path)?;
        let shard = part;
        let lab = Lab::read(path)?.unwrap_or(Lab { format: FORMAT, shard: shard.clone(), ..Lab::default() });
        if lab.shard != shard {
            let words = |shard: &Option<String>| match shard {
                Some(shard) if shard == CHOSEN => "chosen runs".into(),
                Some(shard) => format!("part {shard} of a sweep"),
                None => "a whole sweep".into(),
            };
            let (there, asked) = (words(&lab.shard), words(&shard));
            bail!("{} contains {there}, but {asked} is requested; name another folder for each part", path.display());
        }
        Ok(Self { path: path.to_owned(), lab, _lock: lock })
    }

    /// Returns the runs of an experiment together with the existing ones, if these have different seeds.
    pub(super) fn widened(&self, id: &str, asked: &Kept) -> Kept {
        let there = self.lab.experiments.get(id).filter(|there| there.first != asked.first);
        there.map_or_else(|| asked.clone(), |there| Kept { program: asked.program.clone(), ..asked.with(there) })
    }

    /// Checks whether an experiment can be started or continued here, without changing anything. Results of another
    /// program are accepted only if `given` allows it.
    pub(crate) fn check(&self, experiment: &Experiment, asked: &Kept, given: Given) -> Result<()> {
        let id = experiment.id();
        let path = self.of(id);
        let Some(there) = self.lab.experiments.get(id) else {
            return if path.exists() { Err(foreign(&self.path, id)) } else { Ok(()) };
        };
        let differs = |what: String| {
            let remedy = format!("name another folder, or use --overwrite to remove the results of {id}");
            anyhow!("{}: {what}; {remedy}", path.display())
        };
        if there.blake3 != asked.blake3 {
            let file = path.join(DEFINITION);
            let what = "the results are of another text, which differs in more than rows, plots and comments; it is in";
            return Err(differs(format!("{what} {}", file.display())));
        }
        if given == Given::OneProgram && there.program != asked.program {
            let what = format!("the results are by {}, and this is {}", there.program, asked.program);
            return Err(differs(format!("{what}; --any-program accepts them")));
        }
        if there.first != asked.first && (there.first < asked.first || there.last() > asked.last()) {
            let [there, asked] = [there, asked].map(|kept| format!("{} to {}", kept.first, kept.last()));
            return Err(differs(format!("it has the seeds {there}, but {asked} are requested")));
        }
        if there.first == asked.first && there.runs > asked.runs {
            let (path, there, asked) = (path.display(), there.runs, asked.runs);
            bail!(
                "{path} has {there} runs per cell, but {asked} are requested; request at least {there} with --seeds, \
                 or name another folder"
            );
        }
        if fs::read_to_string(path.join(DEFINITION)).is_ok_and(|text| !there.is_of(&text)) {
            return Err(differs(format!("{DEFINITION} has been changed since the runs")));
        }
        Ok(())
    }

    /// Removes the results of an experiment, and nothing else.
    pub(crate) fn remove(&self, id: &str) -> Result<()> {
        let path = self.of(id);
        match (self.lab.experiments.contains_key(id), path.exists()) {
            (true, true) => fs::remove_dir_all(&path).with_context(|| path.display().to_string()),
            (false, true) => Err(foreign(&self.path, id)),
            (_, false) => Ok(()),
        }
    }

    /// Stores the origin of the following runs. Executions repeated within one second are stored once.
    pub(crate) fn note_origins(&self, origins: &[Origin]) -> Result<()> {
        let known = read_origins(&self.path);
        let path = self.path.join(ORIGINS);
        let mut file =
            File::options().create(true).append(true).open(&path).with_context(|| path.display().to_string())?;
        for origin in origins.iter().filter(|origin| !known.contains(origin)) {
            file.write_all(format!("{}\n", serde_json::to_string(origin)?).as_bytes())?;
        }
        Ok(())
    }

    /// Stores the request and opens the file of runs. Tables made from fewer runs or for other rows are removed.
    pub(crate) fn begin(&mut self, experiment: &Experiment, asked: &Kept) -> Result<(ByRun, RunFile)> {
        let (id, text) = (experiment.id(), experiment.text.as_bytes());
        let path = self.of(id);
        let definition = path.join(DEFINITION);
        let is_same_text = fs::read(&definition).is_ok_and(|there| there == text);
        let mut asked = asked.clone();
        if let Some(there) = self.lab.experiments.get(id).filter(|there| there.program != asked.program) {
            asked.program = both(&there.program, &asked.program);
        }
        let entry = self.lab.experiments.insert(id.into(), asked.clone());
        if entry.as_ref() != Some(&asked) {
            write::json(&self.path.join(LAB), &self.lab)?;
        }
        if entry.as_ref() != Some(&asked) || !is_same_text {
            for made in [ROWS, ROWS_CSV, VALUES_CSV] {
                let _ = fs::remove_file(path.join(made));
            }
        }
        fs::create_dir_all(&path).with_context(|| path.display().to_string())?;
        if !is_same_text {
            write::whole(&definition, text)?;
        }
        RunFile::open(&path.join(RUNS), experiment)
    }

    pub(crate) fn of(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    pub(super) fn times(&self, id: &str) -> PathBuf {
        self.of(id).join(TIMES)
    }
}

/// Name of a part that consists of individually chosen runs.
pub(crate) const CHOSEN: &str = "chosen";

/// Results that an execution accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// Only results of a single program.
    OneProgram,
    /// Results of any programs, all of whose names are stored.
    AnyProgram,
}

/// Joins the names of the programs that have executed the runs of an experiment.
pub(super) fn both(one: &str, other: &str) -> String {
    const AND: &str = " and ";
    let mut names: Vec<&str> = one.split(AND).chain(other.split(AND)).collect();
    names.sort_unstable();
    names.dedup();
    names.join(AND)
}

/// Returns the origins of the runs in a folder, as far as they are known.
pub(crate) fn read_origins(path: &Path) -> Vec<Origin> {
    let text = fs::read_to_string(path.join(ORIGINS)).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn foreign(path: &Path, file: &str) -> Error {
    let what = "which is not a result, so nothing is written there; name an empty or new folder";
    anyhow!("{} contains {file}, {what}", path.display())
}

/// Checks that the folder is empty except for files left by a program that was killed at its start.
fn is_empty(path: &Path) -> Result<()> {
    for entry in fs::read_dir(path).with_context(|| path.display().to_string())? {
        let file = entry.with_context(|| path.display().to_string())?.file_name().to_string_lossy().into_owned();
        if file != LOCK && file != format!("{LAB}.tmp") {
            return Err(foreign(path, &file));
        }
    }
    Ok(())
}

/// The lock, held until it is dropped or the program ends in any way.
#[derive(Debug)]
struct Lock {
    _file: File,
}

impl Lock {
    fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK);
        let file = File::options().create(true).append(true).open(&path);
        let told = || path.display().to_string();
        let file = file.with_context(told)?;
        if !is_free(&file).with_context(told)? {
            let remedy = "wait until it ends, or name another folder";
            bail!("another longhaul-lab writes there and has locked {}; {remedy}", path.display());
        }
        Ok(Self { _file: file })
    }
}

#[cfg(unix)]
fn is_free(file: &File) -> std::io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;

    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Other systems have no lock.
#[cfg(not(unix))]
fn is_free(_: &File) -> std::io::Result<bool> {
    Ok(true)
}

/// Runs by cell and seed, regardless of their order in the file.
pub(crate) type ByRun = BTreeMap<(usize, u64), Record>;

/// The file of an experiment's runs, open for appending.
#[derive(Debug)]
pub(crate) struct RunFile {
    path: PathBuf,
    file: File,
}

impl RunFile {
    /// Returns the existing runs and the file opened for appending. An incomplete last line, as left by a killed
    /// program, is removed.
    pub(super) fn open(path: &Path, experiment: &Experiment) -> Result<(ByRun, Self)> {
        let told = || path.display().to_string();
        let (runs, whole) = read_runs(path, experiment)?;
        let file = File::options().create(true).append(true).open(path).with_context(told)?;
        file.set_len(whole).with_context(told)?;
        Ok((runs, Self { path: path.to_owned(), file }))
    }

    /// Appends a run with a single write.
    pub(crate) fn add(&mut self, record: &Record) -> Result<()> {
        let line = serde_json::to_string(record)? + "\n";
        self.file.write_all(line.as_bytes()).with_context(|| self.path.display().to_string())
    }
}

/// Returns the runs in a file, and the number of bytes in complete lines. Without a file, there are none.
pub(super) fn read_runs(path: &Path, experiment: &Experiment) -> Result<(ByRun, u64)> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.with_context(|| path.display().to_string())?,
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut runs = ByRun::new();
    for (number, line) in bytes[..whole].split_inclusive(|byte| *byte == b'\n').enumerate() {
        add(&mut runs, line, experiment)
            .map_err(|what| anyhow!("{}: line {}: {what}; {DAMAGED}", path.display(), number + 1))?;
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
    put(runs, &record).map(drop).ok_or_else(|| format!("cell {cell}, seed {seed} occurs twice with different results"))
}

/// Adds a run. Returns whether it is new, or `None` if it is known with another outcome.
pub(super) fn put(runs: &mut ByRun, record: &Record) -> Option<bool> {
    match runs.entry((record.cell, record.seed)) {
        Entry::Occupied(known) => known.get().agrees(record).then_some(false),
        Entry::Vacant(place) => {
            place.insert(record.clone());
            Some(true)
        }
    }
}
