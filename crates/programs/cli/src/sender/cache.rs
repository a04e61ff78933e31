//! Chaining values of files that were sent, in the program's own cache directory. They show at once whether the
//! receiver has a part of the same file. A file that is continued is nevertheless verified during the transfer.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use blake3::hazmat::ChainingValue;

use crate::sidecar::{Boot, Log};

/// Minimum size in bytes of a file whose chaining values are kept. For smaller files, they are computed in less than
/// 0.1 s.
const LEAST: u64 = 16 << 20;
/// Maximum length of all files of the cache in bytes, enough for 1.6 TB of sent files, and maximum number of files.
const MAX_BYTES: u64 = 64 << 20;
const MAX_FILES: usize = 256;
/// Ending of the names of files of the cache.
const ENDING: &str = "groups";

/// Location of the chaining values of one version of a file.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Device, inode, size, and the times of the last change of contents and attributes. The checks of the log depend on it.
    version: String,
}

impl Place {
    /// Returns `None` if the file is small.
    pub(super) fn of(directory: &Path, file: &File) -> Option<Self> {
        let metadata = file.metadata().ok().filter(|metadata| metadata.len() >= LEAST)?;
        let [device, inode, len] = [metadata.dev(), metadata.ino(), metadata.len()];
        let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
        let path = directory.join(format!("{device:x}-{inode:x}.{ENDING}"));
        Some(Self { path, version: format!("{device} {inode} {len} {times:?}") })
    }

    /// Returns the kept chaining values of this version, and their log, for further values.
    pub(super) fn open(&self) -> io::Result<(Log, Vec<ChainingValue>)> {
        let file = File::options().read(true).write(true).open(&self.path)?;
        Log::read(file, self.version.as_bytes(), Boot::default())
    }

    pub(super) fn create(&self) -> io::Result<Log> {
        if let Some(directory) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            make_room(directory, MAX_BYTES, MAX_FILES)?;
        }
        // A file that another process writes keeps its contents.
        let _ = fs::remove_file(&self.path);
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&self.path)?;
        Log::create(file, self.version.as_bytes(), &(), Boot::default())
    }
}

/// Removes the files that have not been written to for the longest time, until there are fewer than `files`, of less than
/// `bytes`.
fn make_room(directory: &Path, bytes: u64, files: usize) -> io::Result<()> {
    let mut found: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(directory)?.flatten() {
        if let (Ok(metadata), true) =
            (entry.metadata(), entry.path().extension().is_some_and(|ending| ending == ENDING))
        {
            found.push((metadata.modified()?, metadata.len(), entry.path()));
        }
    }
    found.sort();
    let mut total: u64 = found.iter().map(|(_, len, _)| len).sum();
    let mut left = found.len();
    for (_, len, path) in found {
        if total < bytes && left < files {
            break;
        }
        fs::remove_file(path)?;
        (total, left) = (total - len, left - 1);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
