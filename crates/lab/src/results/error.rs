//! Errors of folders of results, and how to resolve them.

use std::io;
use std::path::{Path, PathBuf};

use super::FORMAT;
use crate::definition::Fault;

/// Error when reading or writing a folder of results.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// A system error.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// The path is not a folder.
    #[error("{} is a file; name a folder for results", .0.display())]
    IsFile(PathBuf),
    /// The folder contains other files.
    #[error("{} contains {file}, which is not a result, so nothing is written there; name an empty or new folder", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of these files.
        file: String,
    },
    /// The folder does not exist, or has no results.
    #[error("{} has no lab.json: it is not a folder of results", .0.display())]
    NoResults(PathBuf),
    /// Another program writes to the folder.
    #[error("another longhaul-lab writes there and has locked {}; wait until it ends, or name another folder", .0.display())]
    Locked(PathBuf),
    /// A file is not in the format that this program writes.
    #[error("{}: {what}; it is damaged: repeat the experiment with --overwrite, or name another folder", path.display())]
    Damaged {
        /// The file, with a line where that is known.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// `lab.json` is damaged, without which no other file can be interpreted.
    #[error("{}: {what}; it was not written by this program, or is damaged: name another folder", path.display())]
    NoLab {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// The folder has another format.
    #[error("{} has format {format}, and this program has format {FORMAT}; use the program that wrote it, or name another folder", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The results of an experiment do not match the request.
    #[error("{}: {what}; name another folder, or use --overwrite to remove the results of {experiment}", path.display())]
    Differs {
        /// The folder of the experiment.
        path: PathBuf,
        /// The experiment.
        experiment: String,
        /// The difference.
        what: String,
    },
    /// There are more runs than requested.
    #[error("{} has {there} runs per cell, but {asked} are requested; request at least {there} with --seeds, or name another folder", path.display())]
    Fewer {
        /// The experiment's folder.
        path: PathBuf,
        /// Runs per cell requested before.
        there: u32,
        /// Runs per cell requested this time.
        asked: u32,
    },
    /// The folder contains another part of a sweep than requested.
    #[error("{} contains {there}, but {asked} is requested; name another folder for each part", path.display())]
    Shard {
        /// The folder.
        path: PathBuf,
        /// The part in the folder.
        there: String,
        /// The requested part.
        asked: String,
    },
    /// The folders to merge are not parts of one sweep.
    #[error("{} and {}: {what}; only parts of one sweep can be merged", a.display(), b.display())]
    Unlike {
        /// One folder.
        a: PathBuf,
        /// The other folder.
        b: PathBuf,
        /// The difference.
        what: String,
    },
    /// The stored definition of an experiment cannot be read.
    #[error("{}: {fault}", path.display())]
    Definition {
        /// The experiment's folder.
        path: PathBuf,
        /// The fault.
        fault: Fault,
    },
}

impl ResultsError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}
