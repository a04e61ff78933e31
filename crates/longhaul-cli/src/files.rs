//! Files that appear complete or not at all.
//!
//! An unfinished file is in a private directory inside its target directory: both are on one file system, and nobody
//! else can write to the private one. Both directories are held open by descriptors, and the file is renamed relative
//! to them, so that replacing a directory by another one has no effect. Afterwards the name is looked up, and the
//! file counts as delivered only if the name refers to the very file that was written.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::NamedTempFile;

use crate::names::{MAX_NAME, OWN_PREFIX};

/// Start of the names of private directories.
const DIRECTORY: &str = "incoming-";
/// Start of the names of files in private directories.
const PART: &str = "part-";
/// Number of random characters in each of these names.
const RANDOM: usize = 12;
/// Maximum number of names that are tried for a file whose name is taken.
const MAX_COPIES: u32 = 10_000;

/// A target directory and the private directory for unfinished files inside it. The private directory is removed when
/// this and the last of its files are dropped; one left by a killed process is removed by the next process.
#[derive(Debug)]
pub struct Staging {
    out: PathBuf,
    directory: tempfile::TempDir,
    /// The two open directories. The private one is locked while this process lives.
    #[cfg(unix)]
    opened: unix::Opened,
}

impl Staging {
    /// Creates a private directory inside `out`, and `out` itself if it does not exist.
    ///
    /// # Errors
    /// Returns the system's error if a directory cannot be created or opened.
    pub fn open(out: &Path) -> io::Result<Arc<Self>> {
        std::fs::create_dir_all(out)?;
        let prefix = format!("{OWN_PREFIX}{DIRECTORY}");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).rand_bytes(RANDOM);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            unix::remove_leftovers(out, &prefix)?;
            builder.permissions(std::fs::Permissions::from_mode(0o700));
        }
        #[cfg(unix)]
        let (directory, opened) = unix::open(&builder, out)?;
        #[cfg(not(unix))]
        let directory = builder.tempdir_in(out)?;
        Ok(Arc::new(Self {
            out: out.to_owned(),
            directory,
            #[cfg(unix)]
            opened,
        }))
    }

    /// Returns the target directory.
    #[must_use]
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Creates an unfinished file.
    ///
    /// # Errors
    /// Returns the system's error if the file cannot be created.
    pub fn create(self: &Arc<Self>) -> io::Result<TempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PART).rand_bytes(RANDOM);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The same mode as any new file: the process's umask applies.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(self.directory.path())?;
        Ok(TempFile { file, staging: Arc::clone(self) })
    }
}

/// An unfinished file. It is removed when dropped before [`persist`](Self::persist).
#[derive(Debug)]
pub struct TempFile {
    file: NamedTempFile,
    staging: Arc<Staging>,
}

impl TempFile {
    /// Appends `data`.
    ///
    /// # Errors
    /// Returns the system's error if the write fails.
    pub fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.as_file_mut().write_all(data)
    }

    /// Moves the file to `name` in the target directory.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if the name is taken and `overwrite` is false, otherwise the system's error. The file
    /// is removed in both cases.
    pub fn persist(self, name: &str, overwrite: bool) -> io::Result<()> {
        #[cfg(unix)]
        return self.staging.opened.persist(&self.file, name, overwrite);
        #[cfg(not(unix))]
        {
            let target = self.staging.out.join(name);
            let persisted = if overwrite { self.file.persist(target) } else { self.file.persist_noclobber(target) };
            persisted.map(|_| ()).map_err(|error| error.error)
        }
    }

    /// Moves the file to `name` in the target directory or, if that name is taken, to the first free one of
    /// `NAME (1).EXT`, `NAME (2).EXT` and so on. Returns the final name.
    ///
    /// # Errors
    /// Returns `AlreadyExists` if 10,000 such names are taken, otherwise the system's error. The file is removed in
    /// both cases.
    pub fn persist_beside(self, name: &str) -> io::Result<String> {
        #[cfg(not(unix))]
        let mut file = self.file;
        for copy in 0..=MAX_COPIES {
            let name = numbered(name, copy);
            #[cfg(unix)]
            let persisted = self.staging.opened.persist(&self.file, &name, false);
            #[cfg(not(unix))]
            let persisted = match file.persist_noclobber(self.staging.out.join(&name)) {
                Ok(_) => Ok(()),
                Err(error) => {
                    file = error.file;
                    Err(error.error)
                }
            };
            match persisted {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                persisted => return persisted.map(|()| name),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns the file's present path.
    #[cfg(test)]
    fn path(&self) -> &Path {
        self.file.path()
    }
}

/// Returns the name of a copy of the file `name`; copy 0 has the same name. Names that are too long are shortened.
fn numbered(name: &str, copy: u32) -> String {
    if copy == 0 {
        return name.to_owned();
    }
    // A dot at the beginning marks a hidden file, and no extension.
    let dot = name.rfind('.').filter(|&dot| dot > 0).unwrap_or(name.len());
    let (stem, extension) = name.split_at(dot);
    let number = format!(" ({copy})");
    let room = MAX_NAME.saturating_sub(number.len());
    // An extension that fills the name is none.
    let (stem, extension) = if extension.len() < room { (stem, extension) } else { (name, "") };
    let mut end = stem.len().min(room - extension.len());
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{number}{extension}", stem.get(..end).unwrap_or_default())
}

#[cfg(unix)]
mod unix {
    //! Renaming relative to open directories.

    use std::fs;
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
    use rustix::io::Errno;

    use super::{File, NamedTempFile, PART, Path, io};

    /// The two open directories.
    #[derive(Debug)]
    pub(super) struct Opened {
        out: File,
        private: File,
    }

    fn open_directory(path: &Path) -> io::Result<File> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
    }

    /// Creates and locks a private directory. Another process that starts at the same time may remove it as a
    /// leftover before it is locked; then another one is created.
    pub(super) fn open(builder: &tempfile::Builder<'_, '_>, out: &Path) -> io::Result<(tempfile::TempDir, Opened)> {
        const ATTEMPTS: u32 = 100;
        for _ in 0..ATTEMPTS {
            let directory = builder.tempdir_in(out)?;
            let private = match open_directory(directory.path()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            // On systems without locks, leftovers of killed processes are not removed.
            let taken = rustix::fs::flock(&private, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
            if !taken && directory.path().exists() {
                // The path of the target directory may be a symbolic link.
                return Ok((directory, Opened { out: File::open(out)?, private }));
            }
        }
        Err(io::Error::other("other processes remove the directory for unfinished files"))
    }

    impl Opened {
        pub(super) fn persist(&self, file: &NamedTempFile, name: &str, overwrite: bool) -> io::Result<()> {
            let part = file.path().file_name().ok_or(io::ErrorKind::NotFound)?;
            if overwrite {
                rustix::fs::renameat(&self.private, part, &self.out, name)?;
            } else {
                // `linkat` fails atomically if the name exists; a check before a rename would leave a race.
                match rustix::fs::linkat(&self.private, part, &self.out, name, AtFlags::empty()) {
                    Err(Errno::EXIST) => return Err(io::ErrorKind::AlreadyExists.into()),
                    Err(_) => self.claim(part, name)?,
                    Ok(()) => {}
                }
            }
            let written = rustix::fs::fstat(file.as_file())?;
            let placed = rustix::fs::statat(&self.out, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if (written.st_dev, written.st_ino) == (placed.st_dev, placed.st_ino) {
                Ok(())
            } else {
                Err(io::Error::other("another file was put in its place"))
            }
        }

        /// For file systems without hard links: claims the name with an empty file, and replaces that file.
        fn claim(&self, part: &std::ffi::OsStr, name: &str) -> io::Result<()> {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(&self.out, name, flags, Mode::from_raw_mode(0o600))?;
            Ok(rustix::fs::renameat(&self.private, part, &self.out, name)?)
        }
    }

    /// Removes the private directories of killed processes, whose locks nobody holds. Only files with names that this
    /// module creates are removed; a directory that contains anything else is kept.
    pub(super) fn remove_leftovers(out: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(out)?.flatten() {
            if !entry.file_name().to_string_lossy().starts_with(prefix) {
                continue;
            }
            let path = entry.path();
            let Ok(directory) = open_directory(&path) else { continue };
            if rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            for part in fs::read_dir(&path).into_iter().flatten().flatten() {
                if part.file_name().to_string_lossy().starts_with(PART) {
                    // If a file cannot be removed, the directory is kept too.
                    let _ = rustix::fs::unlinkat(&directory, part.file_name(), AtFlags::empty());
                }
            }
            let _ = fs::remove_dir(&path);
        }
        Ok(())
    }
}

/// A private directory in the system's directory for temporary files, removed with its contents when dropped.
#[derive(Debug)]
pub struct TempDir(tempfile::TempDir);

impl TempDir {
    /// Creates a temporary directory.
    ///
    /// # Errors
    /// Returns the system's error if the directory cannot be created.
    pub fn create() -> io::Result<Self> {
        tempfile::Builder::new().prefix("longhaul-").tempdir().map(Self)
    }

    /// Returns the directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_whole_or_not_at_all_and_nothing_else_stays() {
        let parent = TempDir::create().unwrap();
        let out = parent.path().join("made/by/us");
        let target = out.join("target");
        let staging = Staging::open(&out).unwrap();
        let mut file = staging.create().unwrap();
        file.write_all(b"half").unwrap();
        assert!(!target.exists());
        drop(file);

        let mut file = staging.create().unwrap();
        file.write_all(b"whole").unwrap();
        file.persist("target", false).unwrap();
        drop(staging);
        assert_eq!(names(&out), ["target"]);
        assert_eq!(fs::read(&target).unwrap(), b"whole");
    }

    #[test]
    fn a_taken_name_is_kept_unless_told_otherwise() {
        let out = TempDir::create().unwrap();
        let target = out.path().join("target");
        fs::write(&target, "old").unwrap();
        let staging = Staging::open(out.path()).unwrap();
        let error = staging.create().unwrap().persist("target", false).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target).unwrap(), b"old");
        staging.create().unwrap().persist("target", true).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"");
        drop(staging);
        assert_eq!(names(out.path()), ["target"]);
    }

    #[test]
    fn a_taken_name_gets_a_number() {
        let out = TempDir::create().unwrap();
        let staging = Staging::open(out.path()).unwrap();
        let placed: Vec<_> = (0..3).map(|_| staging.create().unwrap().persist_beside("a.tar.gz").unwrap()).collect();
        assert_eq!(placed, ["a.tar.gz", "a.tar (1).gz", "a.tar (2).gz"]);
        drop(staging);
        assert_eq!(names(out.path()), ["a.tar (1).gz", "a.tar (2).gz", "a.tar.gz"]);
        assert_eq!(numbered(".bashrc", 1), ".bashrc (1)");
        assert_eq!(numbered("file", 12), "file (12)");
        for long in ["x".repeat(255), format!("{}.iso", "\u{e4}".repeat(125)), format!("x.{}", "y".repeat(253))] {
            let copy = numbered(&long, 10_000);
            assert!(copy.len() <= MAX_NAME && copy.contains(" (10000)"), "{copy}");
        }
        assert!(numbered(&format!("{}.iso", "\u{e4}".repeat(125)), 1).ends_with(" (1).iso"));
    }

    /// The names are unpredictable, and only the owner may write to the directory.
    #[cfg(unix)]
    #[test]
    fn files_under_way_are_private_and_their_names_random() {
        use std::os::unix::fs::PermissionsExt;
        let out = TempDir::create().unwrap();
        let staging = Staging::open(out.path()).unwrap();
        let (one, two) = (staging.create().unwrap(), staging.create().unwrap());
        let random = |path: &Path| path.file_name().unwrap().to_str().unwrap().rsplit('-').next().unwrap().to_owned();
        assert_ne!(random(one.path()), random(two.path()));
        assert!(random(one.path()).len() >= 12 && random(one.path().parent().unwrap()).len() >= 12);
        let mode = one.path().parent().unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(one.path().parent().unwrap().parent().unwrap(), out.path());
    }

    /// Whoever may write to the target directory may rename its entries and put another file in place of one of them.
    #[cfg(unix)]
    #[test]
    fn only_the_file_that_was_written_is_confirmed() {
        for overwrite in [false, true] {
            let out = TempDir::create().unwrap();
            let staging = Staging::open(out.path()).unwrap();
            let mut file = staging.create().unwrap();
            file.write_all(b"ours").unwrap();
            let (part, private) = (file.path().to_owned(), file.path().parent().unwrap().to_owned());
            fs::rename(&private, out.path().join("elsewhere")).unwrap();
            fs::create_dir(&private).unwrap();
            fs::write(&part, "theirs").unwrap();
            file.persist("target", overwrite).unwrap();
            assert_eq!(fs::read(out.path().join("target")).unwrap(), b"ours");

            // In the private directory only the owner can do that; the check would notice it there too.
            let staging = Staging::open(out.path()).unwrap();
            let mut file = staging.create().unwrap();
            file.write_all(b"ours").unwrap();
            fs::remove_file(file.path()).unwrap();
            fs::write(file.path(), "theirs").unwrap();
            let error = file.persist("other", overwrite).unwrap_err();
            assert_eq!(error.to_string(), "another file was put in its place");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let out = TempDir::create().unwrap();
        let make = |directory: &str, file: &str| {
            fs::create_dir_all(out.path().join(directory)).unwrap();
            fs::write(out.path().join(directory).join(file), "x").unwrap();
        };
        make(".longhaul-incoming-dead", "part-abc");
        make(".longhaul-incoming-mine", "letter");
        make(".longhaul-config", "part-x");
        make("dir", "part-x");
        let living = Staging::open(out.path()).unwrap();
        let under_way = living.create().unwrap();
        let staging = Staging::open(out.path()).unwrap();
        assert!(under_way.path().exists());
        drop((staging, under_way, living));
        assert_eq!(names(out.path()), [".longhaul-config", ".longhaul-incoming-mine", "dir"]);
        assert_eq!(names(&out.path().join(".longhaul-incoming-mine")), ["letter"]);
    }
}
