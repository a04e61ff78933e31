//! Access to files relative to open directories.

use std::ffi::OsStr;
use std::fs;
use std::io::BufReader;
use std::os::unix::fs::OpenOptionsExt;

use longhaul_units::text;
use rustix::fs::{Access, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::parts::{self, ABOUT, Description, Leftover, Slot, Slots};
use super::{Duration, File, NamedTempFile, PART, Path, SystemTime, io};

/// Maximum age of a part that is taken over.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

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
    pub(super) fn persist(&self, file: &NamedTempFile, path: &str, overwrite: bool) -> io::Result<()> {
        let part = file.path().file_name().ok_or(io::ErrorKind::NotFound)?;
        let (out, name) = self.parent(path, true)?;
        if overwrite {
            rustix::fs::renameat(&self.private, part, &out, name)?;
        } else {
            // `linkat` fails atomically if the name exists; a check before a rename would leave a race.
            match rustix::fs::linkat(&self.private, part, &out, name, AtFlags::empty()) {
                Err(Errno::EXIST) => return Err(io::ErrorKind::AlreadyExists.into()),
                Err(_) => self.claim(part, &out, name)?,
                Ok(()) => {}
            }
        }
        let written = rustix::fs::fstat(file.as_file())?;
        let placed = rustix::fs::statat(&out, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (written.st_dev, written.st_ino) == (placed.st_dev, placed.st_ino) {
            Ok(())
        } else {
            Err(io::Error::other("another file was put in its place"))
        }
    }

    /// For file systems without hard links: claims the name with an empty file, and replaces that file.
    fn claim(&self, part: &OsStr, out: &File, name: &str) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(out, name, flags, Mode::from_raw_mode(0o600))?;
        Ok(rustix::fs::renameat(&self.private, part, out, name)?)
    }

    /// Opens the directory of `path` in the target directory; returns it and the last name of the path. No symbolic link
    /// is followed. With `create`, missing directories are created.
    fn parent<'a>(&self, path: &'a str, create: bool) -> io::Result<(File, &'a str)> {
        let (directories, name) = path.rsplit_once('/').map_or((None, path), |(before, name)| (Some(before), name));
        let mut directory = self.out.try_clone()?;
        for name in directories.into_iter().flat_map(|directories| directories.split('/')) {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
            let next = match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
                Err(Errno::NOENT) if create => {
                    match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    rustix::fs::openat(&directory, name, flags, Mode::empty())
                }
                opened => opened,
            };
            directory = next?.into();
        }
        Ok((directory, name))
    }

    /// Returns whether a file of this path exists, of any kind, or why it could not be created.
    pub(super) fn check(&self, path: &str) -> io::Result<bool> {
        let mut directory = self.out.try_clone()?;
        let mut names = path.split('/').peekable();
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        // The last directory on the way that exists, and the first name below it.
        let first = loop {
            let name = names.next().unwrap_or_default();
            if names.peek().is_none() {
                break name;
            }
            match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
                Ok(next) => directory = next.into(),
                Err(Errno::NOENT) => break name,
                Err(error) => return Err(error.into()),
            }
        };
        rustix::fs::accessat(&directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        // Files are renamed from the private directory into their place.
        if rustix::fs::fstat(&directory)?.st_dev != rustix::fs::fstat(&self.private)?.st_dev {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let longest = rustix::fs::fstatvfs(&directory)?.f_namemax;
        if std::iter::once(first).chain(names.clone()).any(|name| name.len() as u64 > longest) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        if names.peek().is_some() {
            return Ok(false);
        }
        match rustix::fs::statat(&directory, first, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a directory with the directories above it, unless it exists, and opens it.
    pub(super) fn directory(&self, path: &str) -> io::Result<File> {
        self.parent(&format!("{path}/."), true).map(|(directory, _)| directory)
    }

    /// Creates a symbolic link.
    pub(super) fn link(&self, path: &str, target: &str, overwrite: bool) -> io::Result<()> {
        let (directory, name) = self.parent(path, true)?;
        if overwrite {
            match rustix::fs::unlinkat(&directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        match rustix::fs::symlinkat(target, &directory, name) {
            Err(Errno::EXIST) => {
                let there = rustix::fs::readlinkat(&directory, name, Vec::new());
                let same = there.is_ok_and(|there| there.to_bytes() == target.as_bytes());
                if same { Ok(()) } else { Err(io::ErrorKind::AlreadyExists.into()) }
            }
            linked => Ok(linked?),
        }
    }
}

impl Opened {
    /// Takes over the parts in the private directories of ended processes, whose locks nobody holds, and removes these
    /// directories. Only files with names that this module creates are removed; a directory that contains anything
    /// else is kept. Parts are taken only from directories of this user that nobody else can access.
    pub(super) fn adopt(&self, out: &Path, prefix: &str) -> io::Result<Slots> {
        let mut slots = Slots::new();
        for entry in fs::read_dir(out)?.flatten() {
            if !entry.file_name().to_string_lossy().starts_with(prefix) {
                continue;
            }
            let path = entry.path();
            let Ok(directory) = open_directory(&path) else { continue };
            if rustix::fs::flock(&directory, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            let private = rustix::fs::fstat(&directory)?;
            let names: Vec<_> = fs::read_dir(&path).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
            if private.st_uid == rustix::process::geteuid().as_raw() && private.st_mode & 0o077 == 0 {
                for part in names.iter().filter(|name| name.to_string_lossy().starts_with(PART)) {
                    // A part that cannot be used is removed below.
                    if let Ok(version) = self.take_over(&directory, part) {
                        let age = slots.len() as u64;
                        let left = Slot::Left(Leftover { version: version.clone(), part: part.clone(), age });
                        slots.insert(version.key(), left);
                    }
                }
            }
            for name in names {
                if [PART, ABOUT].iter().any(|start| name.to_string_lossy().starts_with(start)) {
                    // If a file cannot be removed, the directory is kept too.
                    let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
                }
            }
            let _ = fs::remove_dir(&path);
        }
        // Another part of the same file, or one too many, is removed by the next process.
        parts::take_surplus(&mut slots);
        Ok(slots)
    }

    /// Moves a part and its description into our directory.
    fn take_over(&self, directory: &File, part: &OsStr) -> io::Result<Description> {
        let about = parts::about_name(part);
        let mut reader = BufReader::new(open_own(directory, &about)?);
        let (version, _) = parts::read_about(&mut reader)?;
        let written = open_own(directory, part)?.metadata()?.modified()?;
        #[expect(clippy::disallowed_methods, reason = "a file outlives every other clock")]
        let now = SystemTime::now();
        if now.duration_since(written).unwrap_or_default() > MAX_AGE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        rustix::fs::renameat(directory, &about, &self.private, &about)?;
        rustix::fs::renameat(directory, part, &self.private, part)?;
        Ok(version)
    }

    /// Creates a file in the private directory.
    pub(super) fn create_private(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.private, name, flags, Mode::from_raw_mode(0o600))?.into())
    }

    /// Opens a file in the private directory for reading and writing.
    pub(super) fn open_private(&self, name: &OsStr) -> io::Result<File> {
        open_own(&self.private, name)
    }

    /// Opens a file in the target directory for reading.
    pub(super) fn existing(&self, path: &str) -> io::Result<File> {
        let (directory, name) = self.parent(path, false)?;
        // A pipe is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&directory, name, flags, Mode::empty())?.into())
    }
}

/// Opens a regular file of this user that has no other name: a file with another name may be one that has been
/// delivered.
fn open_own(directory: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File = rustix::fs::openat(directory, name, flags, Mode::empty())?.into();
    let stat = rustix::fs::fstat(&file)?;
    let regular = FileType::from_raw_mode(stat.st_mode).is_file();
    if regular && stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1 {
        Ok(file)
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Largest space that is reserved. A sender that announces much and sends little takes no more from others.
#[cfg(target_os = "linux")]
const MAX_RESERVED: u64 = 64 << 20;

/// Finds out whether there is space for the contents of a file from the byte `from` up to `size`, and reserves at most
/// [`MAX_RESERVED`] of it, without changing the file's length.
pub(super) fn reserve(file: &File, from: u64, size: u64) -> io::Result<()> {
    let needed = size.saturating_sub(from);
    // How much is free is not for the sender, who hears this.
    let full = || {
        let needed = text::size(needed);
        io::Error::new(io::ErrorKind::StorageFull, format!("it needs {needed} of space, and less is free"))
    };
    let system = rustix::fs::fstatvfs(file)?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    if free < needed {
        return Err(full());
    }
    #[cfg(target_os = "linux")]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, from, needed.min(MAX_RESERVED)) {
        Err(Errno::NOSPC) => return Err(full()),
        Err(Errno::DQUOT) => return Err(io::ErrorKind::QuotaExceeded.into()),
        Err(Errno::FBIG) => return Err(io::ErrorKind::FileTooLarge.into()),
        // Some file systems cannot, and the write finds out.
        Ok(()) | Err(_) => {}
    }
    Ok(())
}
