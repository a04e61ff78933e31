//! Folders of results. `docs/lab.md` describes their contents, and decision 26 the reasons.

mod compare;
mod error;
mod findings;
mod folder;
mod held;
mod kept;
mod lock;
mod merge;
mod pictures;
mod report;
mod runs;
mod tables;
pub(crate) mod write;

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use compare::{Change, Comparison, MetricChange, RowChange, Unlike, compare};
pub use error::ResultsError;
pub use findings::{write_list, written};
pub use folder::{Asked, Folder};
pub use held::{Held, Results};
pub use kept::Kept;
pub use merge::{Joined, merge};
pub use pictures::illustrate;
pub(crate) use report::paper;
pub use report::{Paper, Report, Reported};
pub use runs::RunFile;
pub use tables::{Times, write_tables};

use crate::shard::Shard;

/// The folder format of this program, and the only one that it reads.
pub const FORMAT: u32 = 2;
/// File with the description of the folder.
pub(crate) const LAB: &str = "lab.json";
/// File locked by the program that writes to the folder.
const LOCK: &str = "lab.lock";
const DEFINITION: &str = "experiment.toml";
const RUNS: &str = "runs.jsonl";
const ROWS: &str = "rows.json";
const ROWS_CSV: &str = "rows.csv";
const VALUES_CSV: &str = "values.csv";
const TIMES: &str = "times.json";
/// Folder of an experiment's pictures.
const PICTURES: &str = "plots";
/// Tables of an experiment in Markdown.
const TABLES: &str = "tables.md";
/// The page of all experiments.
const PAGE: &str = "index.html";
/// List of the rows that are not reproduced, in Markdown.
const LIST: &str = "not-reproduced.md";

/// Returns the name and version of this program, as stored in folders.
#[must_use]
pub fn program() -> String {
    concat!("longhaul-lab ", env!("CARGO_PKG_VERSION")).into()
}

/// Contents of `lab.json`, which describes a folder. It has no date, so that the same runs produce the same file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Lab {
    /// The format: see [`FORMAT`].
    pub format: u32,
    /// The part of a sweep, if it is a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// The experiments by identifier.
    pub experiments: BTreeMap<String, Kept>,
}

impl Lab {
    /// Reads the description of a folder, or returns `None` if there is none.
    fn read(folder: &Path) -> Result<Option<Self>, ResultsError> {
        /// The field that every format has.
        #[derive(Deserialize)]
        struct Any {
            format: u32,
        }

        let path = folder.join(LAB);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(ResultsError::io(&path, error)),
        };
        let damaged = |error: serde_json::Error| ResultsError::NoLab { path: path.clone(), what: error.to_string() };
        let Any { format } = serde_json::from_slice(&text).map_err(damaged)?;
        if format != FORMAT {
            return Err(ResultsError::Format { path, format });
        }
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }
}
