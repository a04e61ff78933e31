//! What can be wrong with a folder of results, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::FORMAT;
use crate::definition::Fault;

/// Why a folder of results cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The system says so.
    #[error("{}: {error}", path.display())]
    Io {
        /// Where.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
    /// It is no folder.
    #[error("{} is a file; name a folder for results", .0.display())]
    IsFile(PathBuf),
    /// It has other things in it.
    #[error("{} holds {file}, which is no result, and nothing is written there; name an empty folder, or a new one", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// One of the things.
        file: String,
    },
    /// It is not there, or has no results.
    #[error("{} has no lab.json: it is no folder of results", .0.display())]
    NoResults(PathBuf),
    /// Another program writes there.
    #[error("another longhaul-lab writes there: it holds {}; wait until it ends, or name another folder", .0.display())]
    Locked(PathBuf),
    /// A file is not as this program writes it.
    #[error("{}: {what}; it was damaged: repeat the experiment with --overwrite, or name another folder", path.display())]
    Damaged {
        /// The file, with a line where that is known.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The same of what the folder is about, without which nothing in it can be told.
    #[error("{}: {what}; it is none of this program's, or was damaged: name another folder", path.display())]
    NoLab {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Another format.
    #[error("{} has format {format}, and this program has format {FORMAT}; use the program that wrote it, or name another folder", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// What is there of an experiment is not what is asked for.
    #[error("{}: {what}; name another folder, or give --overwrite to remove what is there of {experiment}", path.display())]
    Differs {
        /// Its folder.
        path: PathBuf,
        /// The experiment.
        experiment: String,
        /// What differs.
        what: String,
    },
    /// There are more runs than are asked for.
    #[error("{} has {there} runs of each cell, and {asked} are asked for; ask for at least {there} with --seeds, or name another folder", path.display())]
    Fewer {
        /// The experiment's folder.
        path: PathBuf,
        /// Runs that were asked for before.
        there: u32,
        /// Now.
        asked: u32,
    },
    /// It is another part of a sweep than is asked for.
    #[error("{} holds {there}, and this is to be {asked}; name another folder for each part", path.display())]
    Shard {
        /// The folder.
        path: PathBuf,
        /// What it holds.
        there: String,
        /// What is asked for.
        asked: String,
    },
    /// Folders that are to be joined are not parts of one sweep.
    #[error("{} and {}: {what}; only parts of one sweep can be joined", a.display(), b.display())]
    Unlike {
        /// A folder.
        a: PathBuf,
        /// Another.
        b: PathBuf,
        /// How they differ.
        what: String,
    },
    /// What is kept of a definition cannot be read.
    #[error("{}: {fault}", path.display())]
    Definition {
        /// The experiment's folder.
        path: PathBuf,
        /// What is wrong.
        fault: Fault,
    },
}

impl ResultsError {
    pub(super) fn io(path: &Path, error: io::Error) -> Self {
        Self::Io { path: path.to_owned(), error }
    }
}
