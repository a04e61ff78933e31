//! Comparison of a directory with that of a sender, and deletion of entries that only the receiver has.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Stat};
use rustix::io::Errno;
use tempfile::SpooledTempFile;

use super::{Latest, open_below};
use crate::files::Staging;
use crate::files::hashing::Stop;
use crate::groups::GroupHasher;
use crate::mirror::{self, BLOCK, Request, STAMP_LEN, State, Surplus};
use crate::names::{self, MAX_DEPTH, MAX_PATH, Name, NameError};
use crate::protocol::{FileHeader, Kind, MAX_UNASKED, ProtocolError, Timestamp};

/// Maximum size in bytes of a list of surplus entries that is kept in memory. A longer list is kept in a file.
const IN_MEMORY: usize = 1 << 20;

/// Compares the entries that a sender names. Memory is bounded by the number of names in this machine's directories on
/// the path of the latest entry.
pub(crate) struct Comparison {
    staging: Arc<Staging>,
    request: Request,
    /// Whether names that begin with a dot or a dash may be deleted.
    hidden: bool,
    /// The directories on the path of the latest entry, from the outermost one.
    levels: Vec<Level>,
    surplus: SurplusList,
    /// Whether two directories of the sender may be the same one here, whose files would each be surplus in the other.
    is_mixed: bool,
}

/// A directory whose entries are compared.
#[derive(Default)]
struct Level {
    name: Vec<u8>,
    /// `None` if the receiver does not have it.
    directory: Option<File>,
    /// Names in the directory that the sender has not named.
    unnamed: BTreeSet<Vec<u8>>,
    /// Inodes of the entries that the sender has named.
    named: HashSet<u64>,
    /// Inodes of entries that the sender has named differently from the directory, because the file system ignores case
    /// or normalizes names.
    aliased: HashSet<u64>,
    /// Whether an entry differs, so that the modification time of the directory will change.
    is_dirty: bool,
}

impl Comparison {
    pub(crate) fn new(staging: &Arc<Staging>, request: Request, hidden: bool) -> Self {
        let (staging, surplus) = (Arc::clone(staging), SurplusList::new(staging));
        Self { staging, request, hidden, levels: Vec::new(), surplus, is_mixed: false }
    }

    /// Returns the answer to a frame: the states of the entries, and the block hashes of small files that have changed.
    /// Returns an error if the frame is not valid, or the list of surplus entries cannot be written.
    pub(crate) fn frame(&mut self, frame: &[u8], stop: &Stop) -> Result<Vec<u8>, ProtocolError> {
        let (mut states, mut blocks) = (Vec::new(), Vec::new());
        let mut rest = frame;
        while !rest.is_empty() && !stop.is_set() {
            let (header, hash) = mirror::take_entry(&mut rest, self.request)?;
            let state = self.entry(&header, hash, stop)?;
            states.push(state as u8);
            if state == State::Changed {
                mirror::push_blocks(&mut blocks, &self.small(&header).unwrap_or_default());
            }
        }
        states.append(&mut blocks);
        Ok(states)
    }

    /// Returns the contents of a small file, of which only blocks may have changed.
    fn small(&self, header: &FileHeader) -> Option<Vec<u8>> {
        let small = 2 * BLOCK as u64..=MAX_UNASKED;
        if header.kind != Kind::File || !header.size.is_some_and(|size| small.contains(&size)) {
            return None;
        }
        let file = self.staging.existing(&header.name).ok()?;
        let len = file.metadata().ok().map(|metadata| metadata.len()).filter(|len| small.contains(len))?;
        let mut contents = Vec::new();
        file.take(len).read_to_end(&mut contents).ok().map(|_| contents)
    }

    pub(crate) fn finish(self) -> SurplusList {
        if self.is_mixed { SurplusList::new(&self.staging) } else { self.surplus }
    }

    fn entry(&mut self, header: &FileHeader, hash: Option<blake3::Hash>, stop: &Stop) -> io::Result<State> {
        if self.is_refused(&header.name) {
            return Ok(State::New);
        }
        if header.kind == Kind::Directory {
            self.descend(header.name.as_bytes());
            return self.close(&header.name, header.modified);
        }
        self.descend(names::split(&header.name).0);
        let deletes = self.request.surplus;
        let mut outside = Level::default();
        let level = match self.levels.last_mut() {
            Some(level) => level,
            // A file outside of any sent directory: its neighbours are not revealed.
            None => {
                outside.directory = Some(self.staging.out.try_clone()?);
                &mut outside
            }
        };
        let state = level.compare(header, hash, deletes, stop);
        level.is_dirty |= state != State::Same;
        Ok(state)
    }

    /// Returns whether the receiver refuses such names, so that senders learn nothing about them.
    fn is_refused(&self, path: &Name) -> bool {
        !self.hidden && names::check_not_hidden(path).is_err()
    }

    /// Opens the directories of `path`, and closes others. The entries of directories that the sender has not closed
    /// are kept.
    fn descend(&mut self, path: &[u8]) {
        let path: Vec<_> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let shared = self.levels.iter().zip(&path).take_while(|(level, name)| level.name == **name).count();
        self.levels.truncate(shared);
        for name in path.into_iter().skip(shared) {
            let directory = match self.levels.last_mut() {
                Some(above) => {
                    let (directory, is_other) = above.enter(name).unzip();
                    self.is_mixed |= is_other == Some(false);
                    directory
                }
                None => open_below(&self.staging.out, name).ok(),
            };
            let unnamed = directory.as_ref().and_then(|directory| entries(directory).ok()).unwrap_or_default();
            self.levels.push(Level { name: name.to_owned(), directory, unnamed, ..Level::default() });
        }
    }

    /// Compares the directory `path`, all entries of which have been compared.
    fn close(&mut self, path: &Name, modified: Timestamp) -> io::Result<State> {
        let Some(level) = self.levels.pop() else { return Ok(State::New) };
        let state = match &level.directory {
            None => State::New,
            Some(directory) => {
                let is_surplus = self.request.surplus && self.add_surplus(path, directory, &level)?;
                let is_same = !is_surplus && !level.is_dirty && {
                    let stat = rustix::fs::fstat(directory)?;
                    mirror::is_same_time(modified, time(&stat))
                };
                if is_same { State::Same } else { State::Changed }
            }
        };
        if let Some(above) = self.levels.last_mut() {
            above.is_dirty |= state == State::New;
        }
        Ok(state)
    }

    /// Lists the entries of a directory that the sender has not named. Returns whether there are any.
    fn add_surplus(&mut self, path: &Name, directory: &File, level: &Level) -> io::Result<bool> {
        let mut any = false;
        if !level.has_inodes() {
            // Any of them may be an entry that the sender has under another spelling.
            return Ok(false);
        }
        for name in &level.unnamed {
            let Ok(stat) = rustix::fs::statat(directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // The sender has the entry under another spelling.
            if !level.aliased.contains(&stat.st_ino) {
                any |= self.add(directory, name, &path.join(&name.clone().into()), &stat)?;
            }
        }
        Ok(any)
    }

    /// Lists everything in an entry, and then the entry. Returns false if anything is not listed: names that the
    /// receiver does not accept, other file systems, and unreadable directories are kept.
    fn add(&mut self, directory: &File, name: &[u8], path: &Name, stat: &Stat) -> io::Result<bool> {
        let is_own = matches!(names::check(name), Err(NameError::Own(_)));
        let is_long = path.as_bytes().len() > MAX_PATH || names::parts(path).count() > MAX_DEPTH;
        if is_own || is_long || self.is_refused(path) || stat.st_dev != rustix::fs::fstat(directory)?.st_dev {
            return Ok(false);
        }
        let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
        if is_directory {
            let Ok(below) = open_below(directory, name) else { return Ok(false) };
            let Ok(entries) = entries(&below) else { return Ok(false) };
            let mut all = true;
            for name in entries {
                let stat = rustix::fs::statat(&below, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
                all &= match stat {
                    Ok(stat) => self.add(&below, &name, &path.join(&name.clone().into()), &stat)?,
                    Err(_) => false,
                };
            }
            if !all {
                return Ok(false);
            }
        }
        self.surplus.push(&Surplus { is_directory, stamp: stamp(stat), name: path.clone() })?;
        Ok(true)
    }
}

impl Level {
    /// Opens a subdirectory that the sender also has. Also returns whether it is certain to be another one than those
    /// opened before.
    fn enter(&mut self, name: &[u8]) -> Option<(File, bool)> {
        let directory = open_below(self.directory.as_ref()?, name).ok()?;
        let is_other = self.mark(name, rustix::fs::fstat(&directory).ok()?.st_ino) && self.has_inodes();
        Some((directory, is_other))
    }

    /// Returns whether every entry that the sender has under another spelling has the inode of a name in the directory.
    /// Otherwise, inodes do not identify files, as on file systems in user space that number paths.
    fn has_inodes(&self) -> bool {
        let Some(directory) = self.directory.as_ref().filter(|_| !self.aliased.is_empty()) else { return true };
        let inode = |name: &Vec<u8>| rustix::fs::statat(directory, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
        let unnamed: HashSet<_> = self.unnamed.iter().filter_map(|name| Some(inode(name).ok()?.st_ino)).collect();
        self.aliased.iter().all(|inode| self.named.contains(inode) || unnamed.contains(inode))
    }

    /// Records that the sender has an entry with this inode. Returns false if another of its entries has the same
    /// inode.
    fn mark(&mut self, name: &[u8], inode: u64) -> bool {
        if self.unnamed.remove(name) {
            self.named.insert(inode);
            !self.aliased.contains(&inode)
        } else {
            self.aliased.insert(inode);
            !self.named.contains(&inode)
        }
    }

    fn compare(&mut self, header: &FileHeader, hash: Option<blake3::Hash>, deletes: bool, stop: &Stop) -> State {
        let name = names::split(&header.name).1;
        let Some(directory) = &self.directory else { return State::New };
        let stat = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return State::New,
            // Writing it will show the reason.
            Err(_) => return State::Changed,
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind.is_dir() {
            // A directory in place of a file is surplus.
            return if deletes { State::New } else { State::Changed };
        }
        let is_same = match &header.kind {
            Kind::File => {
                let size = u64::try_from(stat.st_size).unwrap_or_default();
                kind.is_file()
                    && header.size == Some(size)
                    && mirror::is_same_time(header.modified, time(&stat))
                    && hash.is_none_or(|hash| hash_of(directory, name, size, stop).is_ok_and(|ours| ours == hash))
            }
            Kind::Link(target) => rustix::fs::readlinkat(directory, name, Vec::new())
                .is_ok_and(|ours| ours.to_bytes() == target.as_bytes()),
            Kind::Directory => false,
        };
        match (self.mark(name, stat.st_ino), is_same) {
            (false, _) => State::Clash,
            (true, true) => State::Same,
            (true, false) => State::Changed,
        }
    }
}

/// Entries that only the receiver has, in the order in which they can be deleted.
pub(crate) struct SurplusList {
    /// Frames, each after its length.
    spool: SpooledTempFile,
    frame: Vec<u8>,
    digest: blake3::Hasher,
}

impl SurplusList {
    fn new(staging: &Staging) -> Self {
        let spool = tempfile::spooled_tempfile_in(IN_MEMORY, &staging.private);
        Self { spool, frame: Vec::new(), digest: blake3::Hasher::new() }
    }

    fn push(&mut self, entry: &Surplus) -> io::Result<()> {
        entry.push(&mut self.frame);
        if mirror::has_room(&self.frame) { Ok(()) } else { self.store() }
    }

    fn store(&mut self) -> io::Result<()> {
        self.digest.update(&self.frame);
        self.spool.write_all(&(self.frame.len() as u32).to_be_bytes())?;
        self.spool.write_all(&self.frame)?;
        self.frame.clear();
        Ok(())
    }

    /// Completes the list and starts reading it.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        if !self.frame.is_empty() {
            self.store()?;
        }
        self.spool.rewind()
    }

    /// Returns the next frame, or an empty one at the end.
    pub(crate) fn next(&mut self) -> io::Result<Vec<u8>> {
        let mut len = [0; 4];
        match self.spool.read_exact(&mut len) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Vec::new()),
            read => read?,
        }
        let mut frame = vec![0; u32::from_be_bytes(len) as usize];
        self.spool.read_exact(&mut frame)?;
        Ok(frame)
    }

    pub(crate) fn digest(&self) -> blake3::Hash {
        self.digest.finalize()
    }

    /// Deletes the listed entries that have not changed since. Returns their number, and calls `failed` with every
    /// other entry and the reason.
    pub(crate) fn delete(
        &mut self,
        staging: &Staging,
        stop: &Stop,
        mut failed: impl FnMut(&Surplus, &io::Error),
    ) -> io::Result<u64> {
        let (mut deleted, mut latest) = (0, Latest::default());
        self.begin()?;
        loop {
            let frame = self.next()?;
            let mut rest = frame.as_slice();
            while let Some(entry) = Surplus::take(&mut rest).filter(|_| !stop.is_set()) {
                match remove(staging, &entry, &mut latest) {
                    Ok(()) => deleted += 1,
                    Err(error) => failed(&entry, &error),
                }
            }
            if frame.is_empty() || stop.is_set() {
                return Ok(deleted);
            }
        }
    }
}

fn remove(staging: &Staging, entry: &Surplus, latest: &mut Latest) -> io::Result<()> {
    let (directory, name) = staging.parent(&entry.name, None, latest)?;
    if entry.is_directory {
        return Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?);
    }
    if stamp(&rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?) != entry.stamp {
        return Err(io::Error::other("it has changed since it was listed"));
    }
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
}

fn entries(directory: &File) -> io::Result<BTreeSet<Vec<u8>>> {
    let names = Dir::read_from(directory)?.map(|entry| Ok(entry?.file_name().to_bytes().to_vec()));
    names.filter(|name| !name.as_ref().is_ok_and(|name| matches!(&**name, b"." | b".."))).collect()
}

fn hash_of(directory: &File, name: &[u8], size: u64, stop: &Stop) -> io::Result<blake3::Hash> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File = rustix::fs::openat(directory, name, flags, Mode::empty())?.into();
    Ok(GroupHasher::read(stop.reader(file), size)?.finalize())
}

#[expect(clippy::useless_conversion, reason = "other systems have other types")]
fn time(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_mtime.into(), nanos: stat.st_mtime_nsec as u32 }.clamped()
}

/// Returns inode and modification time, which differ if the name has been reused for another file.
fn stamp(stat: &Stat) -> [u8; STAMP_LEN] {
    let time = time(stat);
    let mut stamp = [0; STAMP_LEN];
    let fields =
        stat.st_ino.to_be_bytes().into_iter().chain(time.seconds.to_be_bytes()).chain(time.nanos.to_be_bytes());
    stamp.iter_mut().zip(fields).for_each(|(byte, field)| *byte = field);
    stamp
}

#[cfg(test)]
mod tests;
