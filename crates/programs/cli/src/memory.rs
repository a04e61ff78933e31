//! Path metrics that persist from one run of a program to the next.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use longhaul::PathCache;

/// A path cache that is saved in a file. Clones share the same cache.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    file: PathBuf,
    paths: PathCache,
}

impl Memory {
    /// Loads the cache that an earlier run saved in `file`; the cache is empty if the file does not exist.
    pub(crate) fn open(file: &Path) -> Result<Self> {
        let paths = PathCache::default();
        match read(file) {
            Ok((text, ago)) => {
                paths.load(ago, &text)?;
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { file: file.to_owned(), paths })
    }

    pub(crate) fn paths(&self) -> PathCache {
        self.paths.clone()
    }

    /// Saves the cache. The file is replaced atomically: another program sees either the old or the new file.
    pub(crate) fn save(&self) -> Result<()> {
        let mut beside = self.file.clone().into_os_string();
        beside.push(format!(".{}", std::process::id()));
        let text = self.paths.save();
        let written = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &self.file));
        written.with_context(|| format!("cannot write {}", self.file.display()))
    }
}

/// Returns a file's text and its age. If the clock was set back and the file is dated in the future, its age is zero.
fn read(file: &Path) -> io::Result<(String, Duration)> {
    let text = fs::read_to_string(file)?;
    let written = file.metadata()?.modified()?;
    #[expect(clippy::disallowed_methods, reason = "a file outlives every other clock")]
    let now = SystemTime::now();
    Ok((text, now.duration_since(written).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use std::net::{IpAddr, Ipv4Addr};

    use longhaul::PathMetrics;

    use tempfile::TempDir;

    use super::*;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn knows(memory: &Memory) -> bool {
        memory.paths.find(HOST, "cubic").is_some()
    }

    /// Metrics expire after one hour, counted from the time in the file.
    #[test]
    fn a_file_grows_old() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("paths");
        let memory = Memory::open(&file).unwrap();
        let mut metrics = PathMetrics::default();
        metrics.ssthresh_bytes = Some(100_000);
        memory.paths.seed(HOST, "cubic", &metrics);
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
    fn a_file_without_a_path_cache_is_refused() {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("paths");
        fs::write(&file, "something else\n").unwrap();
        let error = Memory::open(&file).unwrap_err().to_string();
        assert!(error.starts_with("line 1: not a path cache"), "{error}");
    }
}
