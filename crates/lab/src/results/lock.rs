//! Lock that allows only one program at a time to write to a folder.

use std::fs::File;
use std::path::Path;

use super::{LOCK, ResultsError};

/// The lock, held until it is dropped or the program ends in any way.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(folder: &Path) -> Result<Self, ResultsError> {
        let path = folder.join(LOCK);
        let file = File::options().create(true).append(true).open(&path);
        let file = file.map_err(|error| ResultsError::io(&path, error))?;
        if is_free(&file).map_err(|error| ResultsError::io(&path, error))? {
            Ok(Self { _file: file })
        } else {
            Err(ResultsError::Locked(path))
        }
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
