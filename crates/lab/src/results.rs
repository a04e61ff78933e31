//! Folders of results. `docs/lab.md` describes their contents, and decision 26 states the reasons.

mod compare;
mod folder;
mod held;
mod merge;
mod pack;
mod report;
mod tables;
pub(crate) mod write;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};

pub(crate) use crate::origin::program;
pub(crate) use compare::{Change, Comparison, MetricChange, RowChange, compare};
pub(crate) use folder::{CHOSEN, Folder, Given, RunFile};
pub(crate) use held::{Held, Kept, Results, asked_for, differ_in_axes_only};
pub(crate) use merge::merge;
pub(crate) use pack::pack;
pub(crate) use report::{Report, Reported, illustrate, write_list, written};
pub(crate) use tables::write_tables;

/// The folder format of this program, and the only one that it reads.
pub(crate) const FORMAT: u32 = 2;
pub(crate) const LAB: &str = "lab.json";
const LOCK: &str = "lab.lock";
const DEFINITION: &str = "experiment.toml";
const RUNS: &str = "runs.jsonl";
const ROWS: &str = "rows.json";
const ROWS_CSV: &str = "rows.csv";
const VALUES_CSV: &str = "values.csv";
const TIMES: &str = "times.json";
/// A line per execution of the program that wrote into the folder.
const ORIGINS: &str = "origins.jsonl";
/// Advice for a file that is not in the format of this program.
const DAMAGED: &str = "it is damaged: repeat the experiment with --overwrite, or name another folder";
const PICTURES: &str = "plots";
const TABLES: &str = "tables.md";
const PAGE: &str = "index.html";
/// List of the rows that are not reproduced, in Markdown.
const LIST: &str = "not-reproduced.md";

/// Contents of `lab.json`, which describes a folder. It has no date, so that the same runs produce the same file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Lab {
    pub(crate) format: u32,
    /// The part of a sweep that the folder contains, such as `2/5`, unless it contains a whole sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shard: Option<String>,
    pub(crate) experiments: BTreeMap<String, Kept>,
}

impl Lab {
    /// Reads the description of a folder, or returns `None` if there is none.
    fn read(folder: &Path) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }

        let path = folder.join(LAB);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let damaged = |error: serde_json::Error| {
            let remedy = "it was not written by this program, or is damaged: name another folder";
            anyhow!("{}: {error}; {remedy}", path.display())
        };
        let Any { format } = serde_json::from_slice(&text).map_err(damaged)?;
        if format != FORMAT {
            let remedy = "use the program that wrote it, or name another folder";
            bail!("{} has format {format}, and this program has format {FORMAT}; {remedy}", path.display());
        }
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }
}
