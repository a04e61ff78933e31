//! State of a command while its runs are made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Error, Result};

use super::super::print;
use super::super::print::Progress;
use super::{suffice, tell_left_out};
use crate::cost::{self, Shard};
use crate::experiment::Experiment;
use crate::judge::{self, Judged};
use crate::origin::Origin;
use crate::real;
use crate::record::Record;
use crate::results::{self, CHOSEN, Folder, Given, Kept, Results, RunFile, asked_for, write_tables};
use crate::runner::{self, Interrupted, Job};
use crate::stopwatch::Stopwatch;

/// Request of a command to its experiments.
#[derive(Debug)]
pub(in crate::args) struct Order<'a> {
    /// The cells of each experiment.
    pub(in crate::args) cells: Vec<BTreeSet<usize>>,
    pub(in crate::args) first: u64,
    /// The number of runs per cell of each experiment, with seeds from the first one on.
    pub(in crate::args) runs: Vec<u32>,
    /// If not empty, only these runs are executed.
    pub(in crate::args) chosen: Vec<Job>,
    /// Whether results of other programs are accepted.
    pub(in crate::args) given: Given,
    pub(in crate::args) out: Option<&'a Path>,
    pub(in crate::args) overwrite: bool,
    pub(in crate::args) shard: Option<Shard>,
    /// Whether rows and tables are printed as soon as an experiment is complete.
    pub(in crate::args) prints: bool,
    pub(in crate::args) json: bool,
}

/// The work on the requested experiments, with or without a folder.
pub(in crate::args) struct Session<'a> {
    asked: Order<'a>,
    experiments: Arc<[Experiment]>,
    works: Vec<Work>,
    folder: Option<Folder>,
    clock: Stopwatch,
    /// Number of experiments whose rows have been printed.
    printed: usize,
    all_well: bool,
}

/// State of an experiment.
struct Work {
    /// Indices of the requested cells.
    cells: BTreeSet<usize>,
    kept: Kept,
    /// Number of runs in all cells, requested or not.
    all: usize,
    /// Number of requested runs that do not exist yet.
    lacking: usize,
    /// Existing runs, without their series.
    records: BTreeMap<(usize, u64), Record>,
    file: Option<RunFile>,
    rows: Option<Vec<Judged>>,
    /// Start of the first run and end of the last run in this session.
    span: Option<(f64, f64)>,
}

impl Work {
    /// Returns whether all requested runs exist.
    fn is_done(&self) -> bool {
        self.lacking == 0
    }

    /// Returns whether all runs in all cells exist.
    fn is_complete(&self) -> bool {
        self.records.len() == self.all
    }

    fn put(&mut self, record: Record) {
        let slim = Record { series: BTreeMap::new(), ..record };
        let place = (slim.cell, slim.seed);
        if self.records.insert(place, slim).is_none() && self.cells.contains(&place.0) {
            self.lacking -= 1;
        }
    }

    /// Returns the rows that need only the requested cells, and the number of other rows.
    fn sufficed(&self, experiment: &Experiment, mut rows: Vec<Judged>) -> (Vec<Judged>, usize) {
        let all = rows.len();
        let mut suffices = experiment.rows.iter().map(|row| suffice(&self.cells, row, experiment));
        rows.retain(|_| suffices.next() == Some(true));
        let left_out = all - rows.len();
        (rows, left_out)
    }

    fn sorted(&self) -> Vec<Record> {
        self.records.values().cloned().collect()
    }
}

impl<'a> Session<'a> {
    /// Loads the existing runs. Nothing is changed unless the folder can hold all requested runs.
    pub(in crate::args) fn new(asked: Order<'a>, experiments: Arc<[Experiment]>) -> Result<Self> {
        let work = |(experiment, (chosen, runs)): (&Experiment, (&BTreeSet<usize>, &u32))| {
            let mut cells = chosen.clone();
            cells.retain(|cell| !real::lacks_picoquic(&experiment.setups[*cell]));
            if cells.len() < chosen.len() {
                let skipped = chosen.len() - cells.len();
                print::note(&format!("{}: cells skipped: {skipped}, because {}", experiment.id(), real::NO_PICOQUIC));
            }
            let kept = Kept::new(&experiment.text, asked.first, *runs);
            let [all, lacking] = [experiment.cells.len(), cells.len()].map(|cells| cells * kept.runs as usize);
            Work { cells, kept, all, lacking, records: BTreeMap::new(), file: None, rows: None, span: None }
        };
        let mut works: Vec<Work> = experiments.iter().zip(asked.cells.iter().zip(&asked.runs)).map(work).collect();
        let part = asked.shard.map(|shard| shard.to_string());
        let part = part.or_else(|| (!asked.chosen.is_empty()).then(|| CHOSEN.to_owned()));
        let mut folder = asked.out.map(|path| Folder::open(path, part)).transpose()?;
        if let Some(folder) = &mut folder {
            for (experiment, work) in experiments.iter().zip(&works).filter(|_| !asked.overwrite) {
                folder.check(experiment, &work.kept, asked.given)?;
            }
            let seeds = |(one, work): (&Experiment, &Work)| {
                format!("{}: {} to {}", one.id(), work.kept.first, work.kept.last())
            };
            folder.note_origins(&[Origin::of(experiments.iter().zip(&works).map(seeds).collect())])?;
            for (experiment, work) in experiments.iter().zip(&mut works) {
                if asked.overwrite {
                    folder.remove(experiment.id())?;
                }
                let (found, file) = folder.begin(experiment, &work.kept)?;
                asked_for(found, &work.kept).into_iter().for_each(|record| work.put(record));
                work.file = Some(file);
            }
        }
        Ok(Self { asked, experiments, works, folder, clock: Stopwatch::start(), printed: 0, all_well: true })
    }

    /// Makes the missing runs and prints the rows of complete experiments. Returns whether they are reproduced.
    pub(super) fn run(mut self, at_a_time: usize) -> Result<bool> {
        let shard = self.asked.shard;
        let asked = self.make(at_a_time)?;
        if !self.asked.chosen.is_empty() {
            return Ok(true);
        }
        if let (None, Some(folder)) = (shard, &self.folder) {
            let page = results::illustrate(&Results::read(&folder.path)?)?;
            print::note(&format!("pictures and rows: {}", page.display()));
        }
        if let (Some(shard), Some(folder)) = (shard, &self.folder) {
            print::note(&format!(
                "part {shard}: its {asked} runs are in {path}; when all parts are complete, `longhaul-lab merge OUT {path} ...` judges the rows",
                path = folder.path.display()
            ));
        }
        Ok(self.all_well)
    }

    /// Returns the requested runs, whether they exist or not.
    fn jobs(&self) -> Vec<Job> {
        if !self.asked.chosen.is_empty() {
            return self.asked.chosen.clone();
        }
        let mut jobs = runner::jobs(&self.experiments, self.asked.first, &self.asked.runs);
        if let Some(shard) = self.asked.shard {
            jobs = shard.of(jobs, &self.experiments);
        }
        jobs.retain(|job| self.works[job.experiment].cells.contains(&job.cell));
        jobs
    }

    fn exists(&self, job: Job) -> bool {
        self.works[job.experiment].records.contains_key(&(job.cell, job.seed))
    }

    /// Returns the number of requested runs that do not exist yet, and their expected cost.
    pub(in crate::args) fn left(&self) -> (usize, u64) {
        let jobs: Vec<Job> = self.jobs().into_iter().filter(|job| !self.exists(*job)).collect();
        (jobs.len(), jobs.iter().map(|job| cost::of(*job, &self.experiments)).sum())
    }

    /// Adds a run from another folder, unless it exists or is not requested.
    pub(in crate::args) fn take(&mut self, experiment: usize, record: Record) -> Result<()> {
        let work = &mut self.works[experiment];
        let is_asked = work.cells.contains(&record.cell) && work.kept.has(record.seed);
        if !is_asked || work.records.contains_key(&(record.cell, record.seed)) {
            return Ok(());
        }
        if let Some(file) = &mut work.file {
            file.add(&record)?;
        }
        work.put(record);
        Ok(())
    }

    /// Makes the missing runs, and returns the number of requested runs.
    fn make(&mut self, at_a_time: usize) -> Result<usize> {
        let mut jobs = self.jobs();
        let asked = jobs.len();
        jobs.retain(|job| !self.exists(*job));
        for place in 0..self.works.len() {
            self.conclude(place)?;
        }
        self.print()?;
        let result = self.work(jobs, asked, at_a_time);
        self.note_times()?;
        if result.as_ref().is_err_and(Error::is::<Interrupted>) {
            print::note(&self.how_to_go_on());
        }
        result.map(|()| asked)
    }

    /// Makes the missing runs, and returns the runs of each experiment, without their series.
    pub(in crate::args) fn records(mut self, at_a_time: usize) -> Result<Vec<Vec<Record>>> {
        self.make(at_a_time)?;
        Ok(self.works.iter().map(Work::sorted).collect())
    }

    fn work(&mut self, jobs: Vec<Job>, asked: usize, at_a_time: usize) -> Result<()> {
        if jobs.is_empty() {
            return Ok(());
        }
        let experiments = Arc::clone(&self.experiments);
        let costs: u64 = jobs.iter().map(|job| cost::of(*job, &experiments)).sum();
        let (mut progress, mut ended, mut done) = (Progress::new(), asked - jobs.len(), 0);
        let result = runner::run_all(&experiments, jobs, at_a_time, |job, record| {
            (ended, done) = (ended + 1, done + cost::of(job, &experiments));
            self.ended(job, record)?;
            if self.works[job.experiment].is_done() {
                progress.clear();
                self.conclude(job.experiment)?;
                self.print()?;
            }
            progress.tell(ended, asked, done as f64 / costs as f64);
            Ok(())
        });
        progress.clear();
        result
    }

    fn ended(&mut self, job: Job, record: Record) -> Result<()> {
        let now = self.clock.seconds();
        let work = &mut self.works[job.experiment];
        if let Some(file) = &mut work.file {
            file.add(&record)?;
        }
        let began = work.span.map_or(f64::INFINITY, |(began, _)| began).min(now - record.took);
        work.span = Some((began, now));
        work.put(record);
        Ok(())
    }

    /// Judges an experiment if all requested runs exist. Tables are written only for complete experiments.
    fn conclude(&mut self, place: usize) -> Result<()> {
        let (work, experiment) = (&mut self.works[place], &self.experiments[place]);
        if !self.asked.prints || !work.is_done() || work.rows.is_some() {
            return Ok(());
        }
        let records = work.sorted();
        let rows = match &self.folder {
            Some(folder) if work.is_complete() => write_tables(folder, experiment, &records, work.kept.runs)?,
            _ => judge::judge(experiment, &records, work.kept.runs),
        };
        let (rows, left_out) = work.sufficed(experiment, rows);
        tell_left_out(experiment, left_out);
        work.rows = Some(rows);
        Ok(())
    }

    /// Prints the rows of complete experiments in the requested order.
    fn print(&mut self) -> Result<()> {
        while let Some(rows) = self.works.get(self.printed).and_then(|work| work.rows.as_ref()) {
            self.all_well &= print::rows(rows, self.asked.json)?;
            let (work, experiment) = (&self.works[self.printed], &self.experiments[self.printed]);
            if experiment.tables.iter().any(|table| table.written.shown) {
                print::tables(experiment, &work.sorted(), work.kept.runs, self.asked.json)?;
            }
            self.printed += 1;
        }
        Ok(())
    }

    fn note_times(&self) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        for (work, experiment) in self.works.iter().zip(self.experiments.iter()) {
            let wall = work.span.map_or(0.0, |(began, ended)| ended - began);
            folder.note_times(experiment.id(), &work.sorted(), wall)?;
        }
        Ok(())
    }

    fn how_to_go_on(&self) -> String {
        let ended: usize = self.works.iter().map(|work| work.records.len()).sum();
        match &self.folder {
            Some(folder) => {
                let path = folder.path.display();
                format!("{ended} runs are kept in {path}; the same command continues from there")
            }
            None => "nothing is kept; with --out DIR, completed runs are kept, and the same command continues".into(),
        }
    }
}
