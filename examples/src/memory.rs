//! What is remembered of paths from one run of a program to the next.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};
use longhaul::PathCache;
use longhaul::units::Span;

/// A memory of paths that is kept in a file. Clones are the same memory.
#[derive(Clone, Debug)]
pub struct Memory {
    file: PathBuf,
    paths: PathCache,
}

impl Memory {
    /// With what an earlier run left in `file`; empty if there is none.
    ///
    /// # Errors
    /// A file that cannot be read, or is something else.
    pub fn open(file: &Path) -> Result<Self> {
        let paths = PathCache::default();
        match read(file) {
            Ok((text, ago)) => {
                paths.load(longhaul::now(), ago, &text)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { file: file.to_owned(), paths })
    }

    /// What sockets are to be given.
    #[must_use]
    pub fn paths(&self) -> PathCache {
        self.paths.clone()
    }

    /// Writes the file anew: another program sees the old one or the new one, and no part of either.
    ///
    /// # Errors
    /// The system's, with the file's name.
    pub fn save(&self) -> Result<()> {
        let mut beside = self.file.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        let text = self.paths.save(longhaul::now());
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &self.file));
        written.with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// What a file says, and how long ago it was written. Clocks are set: what lies in the future was written now.
fn read(file: &Path) -> io::Result<(String, Span)> {
    let text = fs::read_to_string(file)?;
    let written = file.metadata()?.modified()?;
    #[expect(clippy::disallowed_methods, reason = "a file outlives every other clock")]
    let now = SystemTime::now();
    let ago = now.duration_since(written).unwrap_or_default();
    Ok((text, Span::from_nanos(u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    use longhaul::PathMetrics;
    use longhaul::units::Bytes;

    use crate::files::TempDir;

    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn knows(memory: &Memory) -> bool {
        memory.paths.find(longhaul::now(), HOST, "cubic").is_some()
    }

    /// What was learnt more than an hour ago counts for nothing, wherever it was meanwhile.
    #[test]
    fn a_file_grows_old() {
        let directory = TempDir::create().unwrap();
        let file = directory.path().join("paths");
        let memory = Memory::open(&file).unwrap();
        let mut metrics = PathMetrics::default();
        metrics.ssthresh = Some(Bytes(100_000));
        memory.paths.seed(longhaul::now(), HOST, "cubic", &metrics);
        memory.save().unwrap();
        let written = file.metadata().unwrap().modified().unwrap();
        let written_ago = |seconds| {
            let at = written - Duration::from_secs(seconds);
            fs::File::options().write(true).open(&file).unwrap().set_modified(at).unwrap();
            knows(&Memory::open(&file).unwrap())
        };
        assert_eq!([0, 3000, 3700].map(written_ago), [true, true, false]);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_memory_is_refused() {
        let directory = TempDir::create().unwrap();
        let file = directory.path().join("paths");
        fs::write(&file, "something else\n").unwrap();
        let error = Memory::open(&file).unwrap_err().to_string();
        assert!(error.starts_with("line 1: not a path cache"), "{error}");
    }
}
