//! The `report` command.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::print;
use crate::documents::{self, Source};
use crate::judge::{Judged, Tally};
use crate::results::{self, Held, Reported, Results};

#[derive(Debug, Args)]
pub(super) struct Report {
    /// Folder of results. Its pictures and its page, index.html, are drawn again, and the rows that are not
    /// reproduced are listed in not-reproduced.md.
    dir: PathBuf,
    /// Document in which the part between `<!-- results -->` and `<!-- end of results -->` is replaced by the numbers
    /// of rows per paper, and of the rows per experiment that are not reproduced.
    #[arg(long, value_name = "FILE")]
    findings: Option<PathBuf>,
    /// Folder of documents. Tables of the experiments in DIR, between `<!-- table: EXPERIMENT TABLE -->` and
    /// `<!-- end of table -->`, and charts of these experiments in JSON files are replaced.
    #[arg(long, value_name = "FOLDER")]
    docs: Option<PathBuf>,
    /// Do not change documents. Fail if a table or chart is not current.
    #[arg(long, requires = "docs")]
    check: bool,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
    /// Exit with code 1 if a claim is not reproduced.
    #[arg(long)]
    strict: bool,
}

impl Report {
    pub(super) fn execute(&self) -> Result<bool> {
        let results = Results::read(&self.dir)?;
        let report = results::Report::of(&results);
        results::illustrate(&results)?;
        results::write_list(&results, &report)?;
        if let Some(file) = &self.findings {
            let told = || file.display().to_string();
            let document = fs::read_to_string(file).with_context(told)?;
            let document = results::written(&document, &report)
                .with_context(|| format!("{}: the marks of the part to be replaced must occur once each", told()))?;
            fs::write(file, document).with_context(told)?;
        }
        if let Some(folder) = &self.docs {
            self.fill(folder, &results)?;
        }
        if self.json {
            print::out(&serde_json::to_string(&report)?)?;
        } else {
            print(&results, &report)?;
        }
        let rows = report.experiments.iter().flat_map(|one| &one.rows);
        Ok(!self.strict || rows.into_iter().all(Judged::is_well))
    }

    /// Fills the tables of the documents, or fails if some are out of date.
    fn fill(&self, folder: &Path, results: &Results) -> Result<()> {
        for held in &results.experiments {
            let (runs, usual) = (held.kept.runs, held.experiment.definition.runs);
            if !held.experiment.tables.is_empty() && runs != usual {
                bail!("{} has {runs} runs per cell, but documents need {usual}", held.id());
            }
        }
        let sources: Vec<Source<'_>> = results.experiments.iter().map(Held::source).collect();
        let changed = documents::update(folder, &sources, self.check)?;
        let names: Vec<String> = changed.iter().map(|path| path.display().to_string()).collect();
        if self.check && !names.is_empty() {
            bail!("tables or charts are not current in {}", names.join(", "));
        }
        print::note(&format!("documents changed: {}", names.len()));
        Ok(())
    }
}

fn print(results: &Results, report: &results::Report) -> Result<()> {
    for one in &report.experiments {
        print::out(&format!("{}: {} ({})", one.experiment, one.title, one.source))?;
        print::rows(&one.rows, false)?;
        if let Some(held) = results.find(&one.experiment) {
            print::tables(&held.experiment, &held.records, held.kept.runs, false)?;
        }
        print::out("")?;
    }
    print::out("claims reproduced / undecided / not / not reproducible / not judged yet; other rows that hold")?;
    for paper in &report.papers {
        let Tally { reproduced, undecided, not_reproduced, not_reproducible, incomplete } = paper.rows.claims;
        let counts = format!("{reproduced} / {undecided} / {not_reproduced} / {not_reproducible} / {incomplete}");
        let [robustness, model] = [paper.rows.robustness, paper.rows.model];
        let others = [(robustness, "robustness"), (model, "model")].map(|(tally, what)| match tally.all() {
            0 => String::new(),
            all => format!("; {what} {} of {all}", tally.reproduced),
        });
        print::out(&format!("  {:<60} {counts}{}", paper.paper, others.concat()))?;
    }
    print::out("\nseconds of computation / wall-clock seconds / simulated flow-seconds per second of computation")?;
    for one in &report.experiments {
        print::out(&format!("  {:<30} {}", one.experiment, times(one)))?;
    }
    let incomplete: Vec<&Reported> = report.experiments.iter().filter(|one| one.ended < one.all).collect();
    if !incomplete.is_empty() {
        print::out("\nincomplete")?;
    }
    for one in incomplete {
        print::out(&format!("  {:<30} {} of {} runs", one.experiment, one.ended, one.all))?;
    }
    if let Some(shard) = &results.shard {
        print::out(&format!("\npart {shard} of a sweep: `longhaul-lab merge OUT DIR...` joins the parts"))?;
    }
    Ok(())
}

fn times(one: &Reported) -> String {
    let times = &one.times;
    format!("{:.1} / {:.1} / {:.0}", times.computed_seconds, times.wall_seconds, one.flow_seconds_per_second)
}
