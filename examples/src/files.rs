//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// What most file systems allow for a name, in bytes.
pub const MAX_NAME: usize = 255;

/// Why a text is no plain file name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("the file name is empty")]
    Empty,
    /// More than [`MAX_NAME`] bytes.
    #[error("a file name of {0} bytes is too long (at most {MAX_NAME})")]
    TooLong(usize),
    /// A path, `..`, or something that a terminal or a file system would take for more than a name.
    #[error("{0:?} is not a plain file name")]
    NotPlain(String),
}

/// Checks that `name` names a file in the directory it is put into, and nothing else.
///
/// # Errors
/// What is wrong with it.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong(name.len()));
    }
    let mut components = Path::new(name).components();
    let single =
        matches!((components.next(), components.next()), (Some(Component::Normal(only)), None) if only == name);
    // Separators and drives of the other family of systems as well: a name means the same everywhere.
    let harmless = !name.chars().any(|c| c.is_control() || matches!(c, '/' | '\\' | ':'));
    if single && harmless { Ok(()) } else { Err(NameError::NotPlain(name.to_owned())) }
}

/// A file in the making, under a temporary name beside its final one. Dropped before [`persist`](Self::persist), it
/// vanishes.
#[derive(Debug)]
pub struct TempFile {
    file: File,
    path: PathBuf,
}

impl TempFile {
    /// Creates a file that nobody else has, in `directory`.
    ///
    /// # Errors
    /// The system's.
    pub fn create(directory: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!(".longhaul-{}-{count}.part", std::process::id()));
            match File::create_new(&path) {
                Ok(file) => return Ok(Self { file, path }),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Appends `data`.
    ///
    /// # Errors
    /// The system's.
    pub fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)
    }

    /// Gives the file its final name.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken and `overwrite` is not set; else the system's. The file is gone then.
    pub fn persist(self, path: &Path, overwrite: bool) -> io::Result<()> {
        if overwrite {
            return fs::rename(&self.path, path);
        }
        // A link fails if the name exists, in one step; a look before a rename would leave a gap.
        match fs::hard_link(&self.path, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists && !path.try_exists()? => {
                // A file system without links.
                fs::rename(&self.path, path)
            }
            linked => linked,
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // After a rename there is nothing to remove.
        let _ = fs::remove_file(&self.path);
    }
}

/// A directory of our own, removed with all that is in it when dropped.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Creates one where the system keeps temporary files.
    ///
    /// # Errors
    /// The system's.
    pub fn create() -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("longhaul-{}-{count}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Nobody is left to whom a failure could matter.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_pass() {
        for name in ["a", "a b.tar.gz", ".profile", "...", "ä", &"x".repeat(255)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in [".", "..", "/", "a/b", "/etc/passwd", "../x", "a/", "./a", "a\\b", "c:x", "a\nb", "a\0", "\x1b[2J"]
        {
            assert_eq!(check_name(name), Err(NameError::NotPlain(name.to_owned())));
        }
        assert_eq!(check_name(""), Err(NameError::Empty));
        assert_eq!(check_name(&"x".repeat(256)), Err(NameError::TooLong(256)));
    }

    fn names(directory: &TempDir) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_temporary_file_appears_whole_or_not_at_all() {
        let directory = TempDir::create().unwrap();
        let target = directory.path().join("target");
        let mut file = TempFile::create(directory.path()).unwrap();
        file.write_all(b"half").unwrap();
        assert!(!target.exists());
        drop(file);
        assert!(names(&directory).is_empty());

        let mut file = TempFile::create(directory.path()).unwrap();
        file.write_all(b"whole").unwrap();
        file.persist(&target, false).unwrap();
        assert_eq!(names(&directory), ["target"]);
        assert_eq!(fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn a_taken_name_is_kept_unless_told_otherwise() {
        let directory = TempDir::create().unwrap();
        let target = directory.path().join("target");
        fs::write(&target, "old").unwrap();
        let error = TempFile::create(directory.path()).unwrap().persist(&target, false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        TempFile::create(directory.path()).unwrap().persist(&target, true).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"");
        assert_eq!(names(&directory), ["target"]);
    }
}
