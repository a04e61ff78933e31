//! Files that appear complete or not at all.
//!
//! An unfinished file is in a private directory inside its target directory: both are on the same file system, and no
//! other user can write to the private one. Both directories are held open by descriptors, and the file is renamed
//! relative to them, so that replacing a directory has no effect. Afterwards, the name is looked up, and the file
//! counts as delivered only if the name refers to exactly the file that was written.
//!
//! If the transfer of a sender with a known key is interrupted, its unfinished files are kept as [`parts`].

use std::collections::VecDeque;
use std::fs::{File, Permissions};
use std::io::{self, Seek as _, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt as _;
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
use tree::Created;

pub(crate) mod hashing;
pub(crate) mod parts;
mod syncing;
mod tree;
mod unnamed;

pub(crate) use tree::{Comparison, Latest, SurplusList};

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
    out: File,
    private: PathBuf,
    /// The private directory, which is locked while this process lives.
    locked: File,
    /// Directories that were created and have no attributes yet.
    created: Mutex<VecDeque<Created>>,
    umask: u32,
    /// Parts that are being received, and parts that interrupted transfers left.
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
        let (private, locked) = tree::create_locked(out, &prefix)?;
        let mut staging = Self {
            // The path of the target directory may be a symbolic link.
            out: File::open(out)?,
            private,
            locked,
            created: Mutex::default(),
            umask: tree::umask(),
            slots: Mutex::default(),
            released: Notify::new(),
            hashing: Hashing::default(),
            boot,
        };
        staging.slots = Mutex::new(staging.adopt(out, &prefix)?);
        Ok(Arc::new(staging))
    }

    pub(crate) fn create(self: &Arc<Self>) -> io::Result<TempFile> {
        // The same mode as any new file: the process's umask applies.
        let mode = Permissions::from_mode(0o666);
        let file =
            tempfile::Builder::new().prefix(PART).rand_bytes(RANDOM).permissions(mode).tempfile_in(&self.private)?;
        Ok(TempFile { file, staging: Arc::clone(self), part: None, reserved: false, sparse: false })
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
        tree::reserve(self.file.as_file(), from, data.map_or(size, |data| data.min(size)), data.is_none())?;
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
        attributes.set(self.file.as_file(), self.staging.umask)
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

    fn place(&mut self, name: &Name, overwrite: bool, owner: &Owner, latest: &mut Latest) -> io::Result<()> {
        let is_moved = self.staging.persist(&self.file, name, overwrite, owner, latest)?;
        self.file.disable_cleanup(is_moved);
        Ok(())
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
        file.set_permissions(Permissions::from_mode(self.mode & 0o777 & !umask))?;
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
