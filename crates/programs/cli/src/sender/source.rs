//! Files to be sent.

use std::fs::{File, Metadata};
use std::io::{self, IsTerminal as _, Read, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::SendError;
use super::tree::{Directory, Found, Latest};
use crate::groups::GroupHasher;
use crate::mirror::{Answer, Known, State};
use crate::names::{self, Name, NameError};
use crate::progress::Total;
use crate::protocol::{self, FileHeader, Kind, Target, Timestamp};

/// Block size of a file system. A smaller difference of sizes is not a hole.
const BLOCK: u64 = 4096;

/// A file, directory or symbolic link to be sent.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    name: Name,
    size: Option<u64>,
    /// Modification time at the time when the file was found.
    modified: Timestamp,
    input: Input,
}

#[derive(Debug)]
enum Input {
    /// A file named on the command line, which is open.
    Open(File),
    /// A file below this directory, opened when it is sent.
    Closed(Arc<Directory>),
    /// This directory, or one below it.
    Directory(Arc<Directory>),
    Link(Name),
    /// An entry that is not sent, with the reason.
    LeftOut(String),
    Stdin {
        /// Whether reading has begun, so that the contents can no longer be read from the beginning.
        begun: AtomicBool,
    },
}

pub(super) enum Contents {
    File(File),
    Stdin,
}

impl Contents {
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        self.seek(0)
    }

    pub(super) fn seek(&mut self, to: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.seek(SeekFrom::Start(to)).map(|_| ()),
            Self::Stdin => Ok(()),
        }
    }

    pub(super) fn file(&self) -> Option<&File> {
        match self {
            Self::File(file) => Some(file),
            Self::Stdin => None,
        }
    }
}

impl Read for Contents {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Stdin => io::stdin().lock().read(buffer),
        }
    }
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, SendError> {
        let open = |error| SendError::Open { path: path.to_owned(), error };
        // This is checked before the file is opened, because opening a pipe waits for its other end.
        if !path.metadata().map_err(open)?.is_file() {
            return Err(SendError::NotAFile(path.to_owned()));
        }
        let file = File::open(path).map_err(open)?;
        let metadata = file.metadata().map_err(open)?;
        let modified = Timestamp::from(metadata.modified().map_err(open)?).clamped();
        let name = name(path).map_err(|error| SendError::Name { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), name, size: Some(metadata.len()), modified, input: Input::Open(file) })
    }

    /// Creates a placeholder for a file that is not sent, with the reason.
    pub(crate) fn left_out(path: &Path, reason: String) -> Self {
        let (path, name, modified) = (path.to_owned(), path.as_os_str().into(), Timestamp::default());
        Self { path, name, size: Some(0), modified, input: Input::LeftOut(reason) }
    }

    /// Uses standard input, whose contents are sent under the name `stdin`.
    /// Returns an error if standard input is a terminal.
    pub(crate) fn stdin() -> Result<Self, SendError> {
        let path = PathBuf::from("-");
        if io::stdin().is_terminal() {
            return Err(SendError::Read { path, error: io::Error::other("standard input is a terminal") });
        }
        let input = Input::Stdin { begun: AtomicBool::new(false) };
        Ok(Self { path, name: "stdin".into(), size: None, modified: Timestamp::default(), input })
    }

    /// Returns all entries below the directory `path`, and each directory after its entries. Symbolic links are sent
    /// only if `links` is true and if they stay inside the directory. Entries that are not sent become
    /// [placeholders](Self::left_out). Returns an error if the directory itself cannot be read or its name cannot be
    /// sent.
    pub(crate) fn walk(path: &Path, links: bool) -> Result<Vec<Self>, SendError> {
        let open = |error| SendError::Open { path: path.to_owned(), error };
        // `.` and `..` are sent under the real names of the directories.
        let named = if path.file_name().is_some() { path.to_owned() } else { path.canonicalize().map_err(open)? };
        let name = name(&named).map_err(|error| SendError::Name { path: path.to_owned(), error })?;
        let root = Arc::new(Directory::open(path).map_err(open)?);
        let modified = Timestamp::from(root.metadata(&name).and_then(|root| root.modified()).map_err(open)?).clamped();
        let names = root.names().map_err(open)?;
        let mut walk = Walk { links, root: Arc::clone(&root), found: Vec::new() };
        walk.directory(&root, names, path.to_owned(), name, modified);
        Ok(walk.found)
    }

    /// Returns the path under which the file is sent.
    pub(crate) fn name(&self) -> &Name {
        &self.name
    }

    /// Returns the local path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of the file in bytes when it was found, if known. Directories and links have the size 0.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Returns whether this is a file, rather than a directory or a link.
    pub(crate) fn is_file(&self) -> bool {
        !matches!(self.input, Input::Directory(_) | Input::Link(_))
    }

    /// Returns whether the entry is not sent.
    pub(super) fn is_left_out(&self) -> bool {
        matches!(self.input, Input::LeftOut(_))
    }

    /// Returns the hash of a file's contents, or `None` if they cannot be read.
    pub(super) fn hash(&self, latest: &mut Latest) -> Option<blake3::Hash> {
        let (header, contents) = self.begin(latest).ok()?;
        Some(GroupHasher::read(contents?, header.size?).ok()?.finalize())
    }

    /// Returns the encoded entry, which the receiver compares with its own, or `None` if the entry is always or never
    /// sent.
    pub(super) fn entry(&self) -> Option<Vec<u8>> {
        let kind = match &self.input {
            Input::LeftOut(_) | Input::Stdin { .. } => return None,
            Input::Directory(_) => Kind::Directory,
            Input::Link(target) => Kind::Link(target.clone()),
            Input::Open(_) | Input::Closed(_) => Kind::File,
        };
        let header = self.header(kind, self.size, None).ok()?;
        protocol::encode_header(&FileHeader { modified: self.modified, mode: 0, ..header }).ok()
    }

    fn can_restart(&self) -> bool {
        !matches!(&self.input, Input::Stdin { begun } if begun.load(Ordering::Relaxed))
    }

    /// Returns the header of the file as it is now, with `keeps` and `asks` unset, and its contents from the beginning.
    pub(super) fn begin(&self, latest: &mut Latest) -> io::Result<(FileHeader, Option<Contents>)> {
        let opened = |error: io::Error| io::Error::new(error.kind(), format!("cannot open it: {error}"));
        let file = match &self.input {
            Input::Directory(root) => {
                let metadata = root.metadata(&self.name).map_err(opened)?;
                return Ok((self.header(Kind::Directory, None, Some(&metadata))?, None));
            }
            Input::Link(target) => return Ok((self.header(Kind::Link(target.clone()), None, None)?, None)),
            Input::LeftOut(reason) => return Err(io::Error::other(reason.clone())),
            Input::Stdin { begun } => {
                begun.store(true, Ordering::Relaxed);
                return Ok((self.header(Kind::File, None, None)?, Some(Contents::Stdin)));
            }
            Input::Open(file) => {
                let mut file = file.try_clone().map_err(opened)?;
                file.rewind()?;
                file
            }
            Input::Closed(root) => root.file(&self.name, latest).map_err(opened)?,
        };
        let metadata = file.metadata().map_err(opened)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let header = self.header(Kind::File, Some(metadata.len()), Some(&metadata))?;
        Ok((header, Some(Contents::File(file))))
    }

    fn header(&self, kind: Kind, size: Option<u64>, metadata: Option<&Metadata>) -> io::Result<FileHeader> {
        let modified = metadata.map(Metadata::modified).transpose()?;
        Ok(FileHeader {
            kind,
            name: self.name.clone(),
            size,
            modified: modified.map_or(Timestamp::default(), |time| Timestamp::from(time).clamped()),
            mode: metadata.map_or(0o644, |metadata| metadata.mode() & 0o7777),
            keeps: false,
            asks: false,
            data: metadata.filter(|_| size.is_some()).and_then(data),
            target: Target::Any,
        })
    }
}

struct Walk {
    links: bool,
    root: Arc<Directory>,
    found: Vec<Source>,
}

impl Walk {
    /// Adds the entries `names` of a directory, which is sent under `name`, and then the directory itself.
    fn directory(
        &mut self,
        directory: &Directory,
        mut names: Vec<Name>,
        path: PathBuf,
        name: Name,
        modified: Timestamp,
    ) {
        names.sort();
        for entry in names {
            let (path, name) = (path.join(entry.to_local()), name.join(&entry));
            if let Err(reason) = self.entry(directory, &entry, &path, name) {
                self.found.push(Source::left_out(&path, reason));
            }
        }
        let input = Input::Directory(Arc::clone(&self.root));
        self.found.push(Source { path, name, size: Some(0), modified, input });
    }

    fn entry(&mut self, directory: &Directory, entry: &Name, path: &Path, name: Name) -> Result<(), String> {
        names::check_path(&name).map_err(|error| error.to_string())?;
        let (size, modified, input) = match directory.find(entry).map_err(|error| error.to_string())? {
            Found::Directory(modified) => {
                let below = directory.below(entry).and_then(|below| Ok((below.names()?, below)));
                let (names, below) = below.map_err(|error| format!("cannot read it: {error}"))?;
                self.directory(&below, names, path.to_owned(), name, modified);
                return Ok(());
            }
            Found::File(len, modified) => (len, modified, Input::Closed(Arc::clone(&self.root))),
            Found::Link if self.links => {
                let target = directory.target(entry).map_err(|error| error.to_string())?;
                names::check_link(&name, &target).map_err(|error| error.to_string())?;
                (0, Timestamp::default(), Input::Link(target))
            }
            Found::Link => {
                return Err("it is a symbolic link (send with --links to include those that stay inside)".to_owned());
            }
            Found::Other => return Err("it is neither a file nor a directory".to_owned()),
        };
        self.found.push(Source { path: path.to_owned(), name, size: Some(size), modified, input });
        Ok(())
    }
}

/// Returns the name under which a path of the command line is sent.
fn name(path: &Path) -> Result<Name, NameError> {
    let name = path.file_name().unwrap_or_default().into();
    names::check_path(&name).map(|()| name)
}

/// Returns the number of stored bytes if the file has holes.
fn data(metadata: &Metadata) -> Option<u64> {
    let data = metadata.blocks().saturating_mul(512);
    (data.saturating_add(BLOCK) <= metadata.len()).then_some(data)
}

/// Files to be sent, and the number of settled files.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    sources: Vec<(Arc<Source>, Known)>,
    settled: usize,
    answered: bool,
}

impl Plan {
    /// Creates a plan to send all of `sources`, in this order.
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        Self {
            sources: sources.into_iter().map(|source| (Arc::new(source), Known::Nothing)).collect(),
            settled: 0,
            answered: false,
        }
    }

    /// Returns whether the unsettled files can be read again, to send them over another connection.
    pub(crate) fn can_restart(&self) -> bool {
        self.rest().iter().all(|(source, _)| source.can_restart())
    }

    /// Returns the total amount to be sent. Directories and links do not count as files here.
    pub(crate) fn total(&self) -> Total {
        let files = self.sources.iter().map(|(source, _)| source).filter(|source| source.is_file());
        let bytes = files.clone().try_fold(0_u64, |all, source| Some(all.saturating_add(source.size()?)));
        Total { files: files.count() as u64, bytes }
    }

    /// Returns the name of the only file or directory that is to be sent, with everything in it.
    pub(crate) fn name(&self) -> Option<String> {
        let roots = |source: &Arc<Source>| names::parts(&source.name).next().unwrap_or_default().to_vec();
        let mut found = self.sources.iter().map(|(source, _)| source).filter(|source| !source.is_left_out());
        let first = roots(found.next()?);
        let is_only = found.all(|source| roots(source) == first);
        is_only.then(|| Name::from(first).to_string())
    }

    /// Returns the size of the settled files when they were found, in bytes.
    pub(super) fn settled_bytes(&self) -> u64 {
        let settled = self.sources.iter().take(self.settled);
        settled.fold(0, |all, (source, _)| all.saturating_add(source.size().unwrap_or(0)))
    }

    /// Returns whether the receiver has replied, which proves that it accepts files from this sender.
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    pub(super) fn rest(&self) -> &[(Arc<Source>, Known)] {
        self.sources.get(self.settled..).unwrap_or_default()
    }

    /// Returns the files whose result is not known yet.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = &Source> {
        self.rest().iter().map(|(source, _)| &**source)
    }

    /// Returns whether some entry is not sent, so that the receiver may have entries that the plan lacks.
    pub(crate) fn lacks_entries(&self) -> bool {
        self.sources.iter().any(|(source, _)| source.is_left_out())
    }

    /// Removes the entries that the receiver has, according to the `states` of the unsettled entries that can be
    /// compared. Returns the number of removed files.
    pub(super) fn compared(&mut self, states: Vec<Answer>) -> u64 {
        let (mut states, mut same, rest) = (states.into_iter(), 0, self.sources.split_off(self.settled));
        for (source, _) in rest {
            let state = source.entry().and_then(|_| states.next());
            match state {
                Some((State::Same, _)) => same += u64::from(source.is_file()),
                Some((State::Clash, _)) => {
                    let reason = "at the receiver, its name is that of another file";
                    let source = Source::left_out(source.path(), reason.to_owned());
                    self.sources.push((Arc::new(source), Known::Nothing));
                }
                Some((State::New, _)) => self.sources.push((source, Known::New)),
                Some((State::Changed, blocks)) => self.sources.push((source, Known::Changed(blocks))),
                None => self.sources.push((source, Known::Nothing)),
            }
        }
        same
    }

    /// Removes all entries that could be sent.
    pub(crate) fn send_nothing(&mut self) {
        self.sources.retain(|(source, _)| source.is_left_out());
    }

    pub(super) fn answered(&mut self) {
        self.answered = true;
    }

    /// Counts the next file as settled.
    pub(super) fn settle(&mut self) {
        self.settled += 1;
    }
}
