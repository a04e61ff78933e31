//! Files that appear complete or not at all.
//!
//! An unfinished file is in a private directory inside its target directory: both are on the same file system, and no
//! other user can write to the private one. Both directories are held open by descriptors, and the file is renamed
//! relative to them, so that replacing a directory has no effect. Afterwards, the name is looked up, and the file
//! counts as delivered only if the name refers to exactly the file that was written.
//!
//! If the transfer of a sender with a known key is interrupted, its unfinished files are kept as [`parts`].

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use blake3::hazmat::ChainingValue;
use tempfile::NamedTempFile;
use tokio::sync::Notify;

use crate::names::{MAX_NAME, Name, OWN_PREFIX};
use crate::packing::is_zero;
use crate::protocol::Timestamp;
use crate::receiver::Owner;
use crate::sidecar::Boot;
use hashing::Hashing;
use parts::{Lease, Part, Slots};

pub(crate) mod hashing;
pub(crate) mod parts;
mod syncing;
#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(crate) use unix::{Comparison, Latest, SurplusList};

/// Only systems with directory handles keep the latest directory open.
#[cfg(not(unix))]
#[derive(Debug, Default)]
pub(crate) struct Latest;

/// Name prefix of private directories.
const DIRECTORY: &str = "incoming-";
/// Name prefix of files in private directories.
const PART: &str = "part-";
/// Number of random characters after a prefix.
const RANDOM: usize = 12;
/// Granularity of holes in bytes: a block of zeros is not written. Most file systems have this block size.
const BLOCK: usize = 4096;
/// Maximum number of alternative names to try if a name is taken.
const MAX_COPIES: u32 = 10_000;

/// A target directory and the private directory for unfinished files inside it. The private directory is removed when
/// the `Staging` and the last of its files are dropped, unless parts remain in it. The next process takes over the
/// parts of earlier processes, and removes everything else that killed processes have left behind.
#[derive(Debug)]
pub(crate) struct Staging {
    #[cfg(not(unix))]
    out: PathBuf,
    private: PathBuf,
    /// The two open directories. The private one is locked as long as this process runs.
    #[cfg(unix)]
    opened: unix::Opened,
    /// Parts that are being received, and parts left by interrupted transfers.
    slots: Mutex<Slots>,
    /// Notified when a connection stops receiving a part.
    released: Notify,
    pub(crate) hashing: Hashing,
    boot: Boot,
}

impl Drop for Staging {
    fn drop(&mut self) {
        // This fails, as intended, if the directory still contains parts.
        let _ = std::fs::remove_dir(&self.private);
    }
}

impl Staging {
    /// Creates a private directory inside `out`, and `out` itself if it does not exist.
    pub(crate) fn open(out: &Path) -> io::Result<Arc<Self>> {
        Self::open_since(out, Boot::current())
    }

    /// Like [`open`](Self::open), on a machine that was started by `boot`.
    fn open_since(out: &Path, boot: Boot) -> io::Result<Arc<Self>> {
        std::fs::create_dir_all(out)?;
        let prefix = format!("{OWN_PREFIX}{DIRECTORY}");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).rand_bytes(RANDOM);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o700));
        }
        #[cfg(unix)]
        let (directory, opened) = unix::open(&builder, out)?;
        #[cfg(not(unix))]
        let directory = builder.tempdir_in(out)?;
        #[cfg(unix)]
        let slots = opened.adopt(out, &prefix)?;
        #[cfg(not(unix))]
        let slots = Slots::new();
        Ok(Arc::new(Self {
            #[cfg(not(unix))]
            out: out.to_owned(),
            private: directory.keep(),
            #[cfg(unix)]
            opened,
            slots: Mutex::new(slots),
            released: Notify::new(),
            hashing: Hashing::default(),
            boot,
        }))
    }

    pub(crate) fn create(self: &Arc<Self>) -> io::Result<TempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PART).rand_bytes(RANDOM);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // The mode is that of any new file: the process's umask applies.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(&self.private)?;
        Ok(TempFile { file, staging: Arc::clone(self), part: None, reserved: false, sparse: false })
    }

    /// Returns whether the target directory has an entry of any kind at this path. Returns the system's error,
    /// including if a component of the path is not a directory.
    pub(crate) fn exists(&self, path: &Name) -> io::Result<bool> {
        #[cfg(unix)]
        return self.opened.exists(path, &mut Latest::default());
        #[cfg(not(unix))]
        Ok(self.out.join(path.to_local()).symlink_metadata().is_ok())
    }

    /// Returns whether the target directory has an entry of any kind at this path. Also [checks](Self::check) the path,
    /// unless its parent is the latest directory, in which another file was placed.
    pub(crate) fn prepare(&self, path: &Name, latest: &mut Latest) -> io::Result<bool> {
        #[cfg(unix)]
        {
            let is_latest = unix::Opened::is_latest(path, latest);
            let exists = self.opened.exists(path, latest)?;
            if !exists && !is_latest {
                self.opened.check(path)?;
            }
            Ok(exists)
        }
        #[cfg(not(unix))]
        {
            let _ = latest;
            self.exists(path)
        }
    }

    /// Checks whether a file can be created or replaced at this path. Returns an error if the obstacle can be detected
    /// in advance: no permission, a read-only or a different file system, a name that is too long, or a component of
    /// the path that is not a directory.
    pub(crate) fn check(&self, path: &Name) -> io::Result<()> {
        #[cfg(unix)]
        return self.opened.check(path);
        #[cfg(not(unix))]
        Ok(drop(path))
    }

    /// Creates a directory inside the target directory, with its missing parents. If `attributes` are given, sets them
    /// if the directory was created for the same sender or `overwrite` is true. Follows no symbolic link.
    /// Returns the system's error, or an error if the directory would exceed the limits of `owner`; `Unsupported` on
    /// systems without directory handles.
    pub(crate) fn directory(
        &self,
        path: &Name,
        attributes: Option<Attributes>,
        overwrite: bool,
        owner: &Owner,
    ) -> io::Result<()> {
        #[cfg(unix)]
        {
            let (directory, is_own) = self.opened.directory(path, owner)?;
            let attributes = attributes.filter(|_| is_own || overwrite);
            attributes.map_or(Ok(()), |attributes| attributes.set(&directory, self.opened.umask))
        }
        #[cfg(not(unix))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Creates a symbolic link inside the target directory. Succeeds if a link with the same target exists already.
    /// Returns `AlreadyExists` if the name is taken and `overwrite` is false, otherwise the system's error, or an error
    /// if the link would exceed the limits of `owner`; `Unsupported` on systems without directory handles.
    pub(crate) fn link(&self, path: &Name, target: &Name, overwrite: bool, owner: &Owner) -> io::Result<()> {
        #[cfg(unix)]
        return self.opened.link(path, target, overwrite, owner);
        #[cfg(not(unix))]
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens the file at this path in the target directory if it is a regular file.
    /// Returns the system's error, also if the path contains a symbolic link.
    pub(crate) fn existing(&self, path: &Name) -> io::Result<File> {
        #[cfg(unix)]
        let file = self.opened.existing(path)?;
        #[cfg(not(unix))]
        let file = File::open(self.out.join(path.to_local()))?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}

/// An unfinished file. It is removed when dropped before [`persist`](Self::persist), unless it is a part with at least
/// one complete group.
pub(crate) struct TempFile {
    file: NamedTempFile,
    staging: Arc<Staging>,
    part: Option<Part>,
    /// Whether space beyond the end of the file is reserved.
    reserved: bool,
    sparse: bool,
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(part) = self.part.take() {
            let kept = part.leave();
            self.file.disable_cleanup(kept);
            if let (true, true, Ok(metadata)) = (kept, self.reserved, self.file.as_file().metadata()) {
                // Frees the reserved space, because the part may never be continued. A failure wastes only that space.
                let _ = self.file.as_file().set_len(metadata.len());
            }
        }
    }
}

impl TempFile {
    /// Appends `data`. If the file has holes, blocks of zeros become holes.
    pub(crate) fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        let file = self.file.as_file_mut();
        if !self.sparse {
            return file.write_all(data);
        }
        let mut rest = data;
        while let Some(zero) = rest.chunks(BLOCK).next().map(is_zero) {
            let alike = rest.chunks(BLOCK).take_while(|block| is_zero(block) == zero);
            let (run, later) = rest.split_at(alike.map(<[u8]>::len).sum());
            if !zero {
                file.write_all(run)?;
            } else {
                let end = file.seek(SeekFrom::Current(run.len() as i64))?;
                if later.is_empty() {
                    file.set_len(end)?;
                }
            }
            rest = later;
        }
        Ok(())
    }

    /// Sets whether blocks of zeros in later writes become holes.
    pub(crate) fn keep_holes(&mut self, sparse: bool) {
        self.sparse = sparse;
    }

    /// Checks whether there is space for the contents from byte `from` up to `size`, and reserves some of it if the
    /// file system supports that. `data` is given for a file with holes: then `data` bytes are needed, and none are
    /// reserved.
    /// Returns `StorageFull` if there is not enough space, otherwise the system's error.
    pub(crate) fn reserve(&mut self, from: u64, size: u64, data: Option<u64>) -> io::Result<()> {
        #[cfg(unix)]
        unix::reserve(self.file.as_file(), from, data.map_or(size, |data| data.min(size)), data.is_none())?;
        self.reserved = data.is_none();
        Ok(())
    }

    /// Records that a group with this chaining value has been appended, if the file is a part.
    pub(crate) fn record(&mut self, group: &ChainingValue) -> io::Result<()> {
        self.part.as_mut().map_or(Ok(()), |part| part.record(self.file.as_file(), group))
    }

    /// Returns the lease through which another connection can take over the file, if the file is a part.
    pub(crate) fn lease(&self) -> Option<Arc<Lease>> {
        self.part.as_ref().map(Part::lease)
    }

    pub(crate) fn set(&self, attributes: Attributes) -> io::Result<()> {
        #[cfg(unix)]
        let umask = self.staging.opened.umask;
        #[cfg(not(unix))]
        let umask = 0;
        attributes.set(self.file.as_file(), umask)
    }

    pub(crate) fn discard(mut self) {
        self.forget();
    }

    /// Removes the description, so that the file is not left as a part.
    fn forget(&mut self) {
        if let Some(part) = self.part.take() {
            part.remove();
        }
    }

    /// Moves the file to `name` in the target directory.
    /// Returns `AlreadyExists` if the name is taken and `overwrite` is false, otherwise the system's error. The file
    /// is removed in both cases.
    pub(crate) fn persist(
        mut self,
        name: &Name,
        overwrite: bool,
        owner: &Owner,
        latest: &mut Latest,
    ) -> io::Result<()> {
        let persisted = self.place(name, overwrite, owner, latest);
        self.forget();
        persisted
    }

    /// Moves the file to `name` in the target directory or, if that name is taken, to the first free one of
    /// `NAME (1).EXT`, `NAME (2).EXT` and so on. Returns the final name.
    /// Returns `AlreadyExists` if 10,000 such names are taken, otherwise the system's error. The file is removed in
    /// both cases.
    pub(crate) fn persist_beside(mut self, name: &Name, owner: &Owner, latest: &mut Latest) -> io::Result<Name> {
        let mut placed = Err(io::ErrorKind::AlreadyExists.into());
        for copy in 0..=MAX_COPIES {
            let name = numbered(name, copy);
            placed = self.place(&name, false, owner, latest).map(|()| name);
            if !matches!(&placed, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
        }
        self.forget();
        placed
    }

    #[cfg(unix)]
    fn place(&mut self, name: &Name, overwrite: bool, owner: &Owner, latest: &mut Latest) -> io::Result<()> {
        let is_moved = self.staging.opened.persist(&self.file, name, overwrite, owner, latest)?;
        self.file.disable_cleanup(is_moved);
        Ok(())
    }

    #[cfg(not(unix))]
    fn place(&mut self, name: &Name, overwrite: bool, _: &Owner, _: &mut Latest) -> io::Result<()> {
        let target = self.staging.out.join(name.to_local());
        if !overwrite {
            // Claims the name: a check before the rename would leave a race.
            File::options().write(true).create_new(true).open(&target)?;
        }
        std::fs::rename(self.file.path(), target)
    }

    #[cfg(test)]
    fn path(&self) -> &Path {
        self.file.path()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Permissions, as in `st_mode`. Only bits for reading, writing and executing are set, except those that the umask
    /// of the process masks.
    pub(crate) mode: u32,
    pub(crate) modified: Timestamp,
}

impl Attributes {
    fn set(self, file: &File, umask: u32) -> io::Result<()> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            file.set_permissions(std::fs::Permissions::from_mode(self.mode & 0o777 & !umask))?;
        }
        #[cfg(not(unix))]
        let _ = umask;
        let Timestamp { seconds, nanos } = self.modified;
        let since = Duration::from_secs(seconds.unsigned_abs());
        let time = if seconds < 0 {
            SystemTime::UNIX_EPOCH.checked_sub(since)
        } else {
            SystemTime::UNIX_EPOCH.checked_add(since)
        };
        let time = time.and_then(|time| time.checked_add(Duration::from_nanos(nanos.into())));
        file.set_modified(time.ok_or(io::ErrorKind::InvalidInput)?)
    }
}

/// Returns the path of a copy of the file `path`; copy 0 has the same name. Names that are too long are shortened.
fn numbered(path: &Name, copy: u32) -> Name {
    if copy == 0 {
        return path.clone();
    }
    let after = |at: Option<usize>| at.map_or(0, |at| at + 1);
    let (directories, name) = path.as_bytes().split_at(after(path.as_bytes().iter().rposition(|byte| *byte == b'/')));
    // A dot at the beginning marks a hidden file, not an extension.
    let dot = name.iter().rposition(|byte| *byte == b'.').filter(|&dot| dot > 0).unwrap_or(name.len());
    let (stem, extension) = name.split_at(dot);
    let number = format!(" ({copy})");
    let room = MAX_NAME.saturating_sub(number.len());
    // An extension that leaves no room for the stem is treated as part of the stem.
    let (stem, extension) = if extension.len() < room { (stem, extension) } else { (name, &[][..]) };
    let mut end = stem.len().min(room - extension.len());
    // Cuts between UTF-8 characters, which have at most three bytes after the first one.
    let is_inside = |at| stem.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    for _ in 0..3 {
        end -= usize::from(end > 0 && is_inside(end));
    }
    [directories, stem.get(..end).unwrap_or_default(), number.as_bytes(), extension].concat().into()
}

#[cfg(test)]
mod tests;
