//! Folders of results. `docs/lab.md` says what is in one; decision 26 says why.

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
pub use findings::written;
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

/// The format of folders that this program writes, and the only one that it reads.
pub const FORMAT: u32 = 2;
/// What a folder is about.
pub(crate) const LAB: &str = "lab.json";
/// Held by who writes to it.
const LOCK: &str = "lab.lock";
const DEFINITION: &str = "experiment.toml";
const RUNS: &str = "runs.jsonl";
const ROWS: &str = "rows.json";
const ROWS_CSV: &str = "rows.csv";
const VALUES_CSV: &str = "values.csv";
const TIMES: &str = "times.json";
/// The folder of an experiment's pictures.
const PICTURES: &str = "plots";
/// The page of all experiments.
const PAGE: &str = "index.html";

/// This program, as folders name it.
#[must_use]
pub fn program() -> String {
    concat!("longhaul-lab ", env!("CARGO_PKG_VERSION")).into()
}

/// What a folder is about: its `lab.json`. Without a date, so that the same work leaves the same file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Lab {
    /// See [`FORMAT`].
    pub format: u32,
    /// The part that it has, if it is one of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// By their identifiers.
    pub experiments: BTreeMap<String, Kept>,
}

impl Lab {
    /// A folder's; none if it has none.
    fn read(folder: &Path) -> Result<Option<Self>, ResultsError> {
        /// What every format has.
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
