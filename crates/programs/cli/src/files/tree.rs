//! Access to files relative to open directories.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use longhaul_link::text;
use longhaul_tls::Fingerprint;
use rustix::fs::{Access, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

use super::parts::{self, ABOUT, Description, Leftover, Slot, Slots};
use super::{Attributes, PART, RANDOM, Staging, unnamed};
use crate::names::{self, Name};
use crate::receiver::Owner;
use crate::sidecar::read_about;
use crate::sync::lock;

mod mirror;

pub(crate) use mirror::{Comparison, SurplusList};

/// Maximum age of a part of an earlier process that may be continued.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Maximum number of created directories whose attributes are still to be set. Usually there are few of them: a sender
/// finishes the entries of a directory before it sends the attributes of the directory.
const MAX_CREATED: usize = 4096;

/// The directory that was used last, which stays open for the next file in it. It is kept for one batch of files only,
/// so that only a few more files are placed in a directory that is moved in the meantime.
#[derive(Debug, Default)]
pub(crate) struct Latest(Option<(Vec<u8>, File)>);

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Creates a private directory whose name begins with `prefix`, and locks it. If another process that starts at the same
/// time removes it as a leftover before it is locked, another one is created.
pub(super) fn create_locked(out: &Path, prefix: &str) -> io::Result<(PathBuf, File)> {
    const ATTEMPTS: u32 = 100;
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).rand_bytes(RANDOM).permissions(Permissions::from_mode(0o700));
    for _ in 0..ATTEMPTS {
        let directory = builder.tempdir_in(out)?;
        let locked = match open_directory(directory.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        // On systems without locks, leftovers of killed processes are not removed.
        let taken = rustix::fs::flock(&locked, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
        if !taken && directory.path().exists() {
            return Ok((directory.keep(), locked));
        }
    }
    Err(io::Error::other("other processes remove the directory for unfinished files"))
}

impl Staging {
    /// Returns whether the file was moved out of the private directory, instead of only getting a second name.
    pub(super) fn persist(
        &self,
        file: &NamedTempFile,
        path: &Name,
        overwrite: bool,
        owner: &Owner,
        latest: &mut Latest,
    ) -> io::Result<bool> {
        let part = file.path().file_name().ok_or(io::ErrorKind::NotFound)?;
        let (out, name) = self.parent(path, Some(owner), latest)?;
        let is_moved = if overwrite {
            owner.check_replaced(path, || rustix::fs::statat(out, name, AtFlags::SYMLINK_NOFOLLOW))?;
            rustix::fs::renameat(&self.locked, part, out, name).map(|()| true)?
        } else {
            self.rename_new(part, out, name)?
        };
        let written = rustix::fs::fstat(file.as_file())?;
        let placed = rustix::fs::statat(out, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (written.st_dev, written.st_ino) == (placed.st_dev, placed.st_ino) {
            owner.record(path, || Ok(placed));
            Ok(is_moved)
        } else {
            Err(io::Error::other("another file was put in its place"))
        }
    }

    /// Creates a file of these `contents` directly under its final name, which must be free: that takes a third less
    /// time than a rename, and no other file can be put in its place. Returns whether the attributes could be set, or
    /// `None` if the system or the file system has no files without names.
    /// Returns `AlreadyExists` if the name is taken, otherwise the system's error.
    pub(crate) fn create_at_once(
        &self,
        path: &Name,
        contents: &[u8],
        attributes: Option<Attributes>,
        owner: &Owner,
        latest: &mut Latest,
    ) -> io::Result<Option<io::Result<()>>> {
        let Some(mut file) = unnamed::create(&self.locked) else { return Ok(None) };
        file.write_all(contents)?;
        let kept = attributes.map_or(Ok(()), |attributes| attributes.set(&file, self.umask));
        let (out, name) = self.parent(path, Some(owner), latest)?;
        match unnamed::link(&file, out, name) {
            Ok(()) => {
                owner.record(path, || rustix::fs::fstat(&file));
                Ok(Some(kept))
            }
            Err(Errno::EXIST) => Err(io::ErrorKind::AlreadyExists.into()),
            // A rename may still be possible, or it returns the reason.
            Err(_) => Ok(None),
        }
    }

    /// Renames a file to its final name, which must be free. Returns whether it has left the private directory.
    fn rename_new(&self, part: &OsStr, out: &File, name: &[u8]) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        match rustix::fs::renameat_with(&self.locked, part, out, name, rustix::fs::RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(true),
            Err(Errno::EXIST) => return Err(io::ErrorKind::AlreadyExists.into()),
            // The kernel, the file system or a system-call filter may refuse this.
            Err(_) => {}
        }
        self.link_part(part, out, name)
    }

    /// Gives a file its final name by a hard link, for systems that cannot rename without replacing.
    pub(super) fn link_part(&self, part: &OsStr, out: &File, name: &[u8]) -> io::Result<bool> {
        // `linkat` fails atomically if the name exists; a check before a rename would leave a race.
        match rustix::fs::linkat(&self.locked, part, out, name, AtFlags::empty()) {
            Err(Errno::EXIST) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(_) => self.claim_name(part, out, name).map(|()| true),
            Ok(()) => Ok(false),
        }
    }

    /// For file systems without hard links: claims the name with an empty file, and replaces that file.
    fn claim_name(&self, part: &OsStr, out: &File, name: &[u8]) -> io::Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(out, name, flags, Mode::from_raw_mode(0o600))?;
        Ok(rustix::fs::renameat(&self.locked, part, out, name)?)
    }

    /// Opens the parent directory of `path` inside the target directory, unless it is the latest one, and returns it with
    /// the last component of the path. Follows no symbolic link. With an owner, creates missing directories for it.
    fn parent<'a, 'b>(
        &self,
        path: &'a Name,
        owner: Option<&Owner>,
        latest: &'b mut Latest,
    ) -> io::Result<(&'b File, &'a [u8])> {
        let (above, name) = names::split(path);
        let opened = match latest.0.take().filter(|(open, _)| open == above) {
            Some(opened) => opened,
            None => {
                let mut names: Vec<_> = names::parts(path).collect();
                names.pop();
                (above.to_vec(), self.walk(&names, owner)?)
            }
        };
        Ok((&latest.0.insert(opened).1, name))
    }

    fn walk(&self, names: &[&[u8]], owner: Option<&Owner>) -> io::Result<File> {
        let mut directory = self.out.try_clone()?;
        for name in names {
            directory = match (open_below(&directory, name), owner) {
                (Err(Errno::NOENT), Some(owner)) => self.create_below(&directory, name, owner)?,
                (opened, _) => opened?,
            };
        }
        Ok(directory)
    }

    fn create_below(&self, directory: &File, name: &[u8], owner: &Owner) -> io::Result<File> {
        let made = owner.pay(|| Ok(rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o777))?));
        let is_new = match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            made => made.is_ok(),
        };
        let opened = open_below(directory, name)?;
        if is_new {
            let mut created = lock(&self.created);
            if created.len() == MAX_CREATED {
                created.pop_front();
            }
            created.push_back(identity(&opened, owner)?);
        }
        Ok(opened)
    }

    /// Returns whether the target directory has an entry of any kind at this path.
    /// Returns the system's error, also if a component of the path is not a directory.
    pub(crate) fn exists(&self, path: &Name, latest: &mut Latest) -> io::Result<bool> {
        let found = self.parent(path, None, latest).and_then(|(directory, name)| {
            rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(io::Error::from)
        });
        match found {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            found => found.map(|_| true),
        }
    }

    /// Returns whether the target directory has an entry of any kind at this path. Also [checks](Self::check) the path,
    /// unless its parent is the latest directory, where another file was placed.
    pub(crate) fn prepare(&self, path: &Name, latest: &mut Latest) -> io::Result<bool> {
        let is_latest = latest.0.as_ref().is_some_and(|(open, _)| open == names::split(path).0);
        let exists = self.exists(path, latest)?;
        if !exists && !is_latest {
            self.check(path)?;
        }
        Ok(exists)
    }

    /// Checks whether a file can be created or replaced at this path.
    /// Returns the obstacle if it can be known in advance: no permission, a read-only or a different file system, a
    /// name that is too long, or a component of the path that is not a directory.
    pub(crate) fn check(&self, path: &Name) -> io::Result<()> {
        let mut directory = self.out.try_clone()?;
        let mut names = names::parts(path).peekable();
        // Finds the last directory of the path that exists, and the first name below it.
        let first = loop {
            let name = names.next().unwrap_or_default();
            if names.peek().is_none() {
                break name;
            }
            match open_below(&directory, name) {
                Ok(next) => directory = next,
                Err(Errno::NOENT) => break name,
                Err(error) => return Err(error.into()),
            }
        };
        rustix::fs::accessat(&directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?;
        // A rename from the private directory cannot cross file systems.
        if rustix::fs::fstat(&directory)?.st_dev != rustix::fs::fstat(&self.locked)?.st_dev {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        let longest = rustix::fs::fstatvfs(&directory)?.f_namemax;
        if std::iter::once(first).chain(names).any(|name| name.len() as u64 > longest) {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        Ok(())
    }

    /// Creates a directory inside the target directory, with its missing parents. If `attributes` are given, sets them
    /// if the directory was created for the same sender or `overwrite` is true. Follows no symbolic link.
    /// Returns the system's error, or an error if the directory would exceed the limits of `owner`.
    pub(crate) fn directory(
        &self,
        path: &Name,
        attributes: Option<Attributes>,
        overwrite: bool,
        owner: &Owner,
    ) -> io::Result<()> {
        let directory = self.walk(&names::parts(path).collect::<Vec<_>>(), Some(owner))?;
        let identity = identity(&directory, owner)?;
        let is_own = {
            let mut created = lock(&self.created);
            let at = created.iter().rposition(|created| *created == identity);
            at.and_then(|at| created.remove(at)).is_some()
        };
        let attributes = attributes.filter(|_| is_own || overwrite);
        attributes.map_or(Ok(()), |attributes| attributes.set(&directory, self.umask))
    }

    /// Creates a symbolic link inside the target directory. Succeeds if a link with the same target exists already.
    /// Returns `AlreadyExists` if the name is taken and `overwrite` is false, otherwise the system's error, or an error
    /// if the link would exceed the limits of `owner`.
    pub(crate) fn link(&self, path: &Name, target: &Name, overwrite: bool, owner: &Owner) -> io::Result<()> {
        let mut latest = Latest::default();
        let (directory, name) = self.parent(path, Some(owner), &mut latest)?;
        let entry = || rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        // An existing entry is removed only if the owner's limits admit the link.
        let create = || {
            if overwrite {
                owner.check_replaced(path, entry)?;
                match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            rustix::fs::symlinkat(target.as_bytes(), directory, name)?;
            owner.record(path, entry);
            Ok(())
        };
        match owner.pay(create) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let there = rustix::fs::readlinkat(directory, name, Vec::new());
                let same = there.is_ok_and(|there| there.to_bytes() == target.as_bytes());
                if same { Ok(()) } else { Err(error) }
            }
            linked => linked,
        }
    }
}

/// Owner, device and inode of a created directory.
pub(super) type Created = (Option<Fingerprint>, u64, u64);

fn identity(directory: &File, owner: &Owner) -> io::Result<Created> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = directory.metadata()?;
    Ok((owner.peer(), metadata.dev(), metadata.ino()))
}

/// Opens the directory `name` in another one. Fails if `name` is a symbolic link.
fn open_below(directory: &File, name: &[u8]) -> rustix::io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).map(File::from)
}

/// Returns the file mode creation mask of the process. Linux shows it in `/proc`. On other systems, only `umask(2)`
/// returns it, by setting another mask, with which other threads could create files in the meantime.
#[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "modes of other systems have 16 bits"))]
pub(super) fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let shown = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    shown.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or_else(|| {
        let mask = rustix::process::umask(Mode::from_raw_mode(0o077));
        rustix::process::umask(mask);
        mask.bits().into()
    })
}

impl Staging {
    /// Takes over the parts in the private directories of processes that have ended and therefore hold no lock, and
    /// removes these directories. Only files with names that this module creates are removed; a directory that contains
    /// anything else is kept. Parts are taken over only from directories of this user that no one else can access.
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
                    // If a file cannot be removed, the directory is also kept.
                    let _ = rustix::fs::unlinkat(&directory, name, AtFlags::empty());
                }
            }
            let _ = fs::remove_dir(&path);
        }
        // The next process removes parts beyond the limit, and further parts of the same file.
        parts::take_surplus(&mut slots);
        Ok(slots)
    }

    fn take_over(&self, directory: &File, part: &OsStr) -> io::Result<Description> {
        let about = parts::about_name(part);
        let version = read_about(open_own(directory, &about)?)?;
        let written = open_own(directory, part)?.metadata()?.modified()?;
        #[expect(clippy::disallowed_methods, reason = "a file outlives every other clock")]
        let now = SystemTime::now();
        if now.duration_since(written).unwrap_or_default() > MAX_AGE {
            return Err(io::ErrorKind::TimedOut.into());
        }
        rustix::fs::renameat(directory, &about, &self.locked, &about)?;
        rustix::fs::renameat(directory, part, &self.locked, part)?;
        Ok(version)
    }

    pub(super) fn create_private(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.locked, name, flags, Mode::from_raw_mode(0o600))?.into())
    }

    pub(super) fn open_private(&self, name: &OsStr) -> io::Result<File> {
        open_own(&self.locked, name)
    }

    /// Opens the file at this path in the target directory if it is a regular file.
    /// Returns the system's error, also if the path contains a symbolic link.
    pub(crate) fn existing(&self, path: &Name) -> io::Result<File> {
        let mut latest = Latest::default();
        let (directory, name) = self.parent(path, None, &mut latest)?;
        // `NONBLOCK`: opening a pipe must not wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(directory, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

/// Opens a regular file of this user that has no other hard link: a file with another link may have been delivered
/// already.
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

/// Largest space that is reserved, in bytes, so that a sender that announces a large file and sends little does not
/// deprive others of more.
#[cfg(target_os = "linux")]
const MAX_RESERVED: u64 = 64 << 20;

/// Checks whether there is space for the contents of a file from byte `from` up to `size`. If `reserves` is true,
/// reserves at most [`MAX_RESERVED`] of it, without changing the file's length.
pub(super) fn reserve(file: &File, from: u64, size: u64, reserves: bool) -> io::Result<()> {
    let needed = size.saturating_sub(from);
    // This message is shown to the sender, which must not learn how much space is free.
    let full = || {
        let needed = text::size(needed);
        io::Error::new(io::ErrorKind::StorageFull, format!("it needs {needed} of space, and less is free"))
    };
    let system = rustix::fs::fstatvfs(file)?;
    if system.f_bavail.saturating_mul(system.f_frsize) < needed {
        return Err(full());
    }
    #[cfg(target_os = "linux")]
    if reserves {
        let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(file, flags, from, needed.min(MAX_RESERVED)) {
            Err(Errno::NOSPC) => return Err(full()),
            Err(Errno::DQUOT) => return Err(io::ErrorKind::QuotaExceeded.into()),
            Err(Errno::FBIG) => return Err(io::ErrorKind::FileTooLarge.into()),
            // Some file systems cannot reserve space. On them, a write fails when the disk is full.
            Ok(()) | Err(_) => {}
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = reserves;
    Ok(())
}
