//! Files to be sent.

use std::fs::{self, File, Metadata};
use std::io::{self, IsTerminal as _, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::SendError;
use crate::names::{self, NameError};
use crate::progress::Screen;
use crate::protocol::{FileHeader, Kind, Timestamp};

/// A file, directory or symbolic link to be sent.
#[derive(Debug)]
pub struct Source {
    path: PathBuf,
    name: String,
    size: Option<u64>,
    input: Input,
}

#[derive(Debug)]
enum Input {
    /// A file named on the command line, which is open.
    Open(File),
    /// A file in a directory, which is opened when it is sent.
    Closed,
    Directory,
    Link(String),
    Stdin {
        /// Whether it has been read from, so that it cannot be sent from its beginning any more.
        begun: AtomicBool,
    },
}

/// Contents of a source.
pub(super) enum Contents {
    File(File),
    Stdin,
}

impl Contents {
    /// Continues the reading at the beginning.
    pub(super) fn rewind(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) => file.seek(SeekFrom::Start(0)).map(|_| ()),
            Self::Stdin => Ok(()),
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
    /// Opens a file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be opened, is not a regular file, or has a name that cannot be sent.
    pub fn open(path: &Path) -> Result<Self, SendError> {
        let open = |error| SendError::Open { path: path.to_owned(), error };
        // Checked before the file is opened, because opening a pipe waits for its other end.
        if !path.metadata().map_err(open)?.is_file() {
            return Err(SendError::NotAFile(path.to_owned()));
        }
        let file = File::open(path).map_err(open)?;
        let size = file.metadata().map_err(open)?.len();
        let name = name(path, None).map_err(|error| SendError::Name { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), name, size: Some(size), input: Input::Open(file) })
    }

    /// Uses standard input, whose contents are sent under the name `stdin`.
    ///
    /// # Errors
    /// Returns an error if standard input is a terminal.
    pub fn stdin() -> Result<Self, SendError> {
        let path = PathBuf::from("-");
        if io::stdin().is_terminal() {
            return Err(SendError::Read { path, error: io::Error::other("standard input is a terminal") });
        }
        let input = Input::Stdin { begun: AtomicBool::new(false) };
        Ok(Self { path, name: "stdin".to_owned(), size: None, input })
    }

    /// Returns everything in the directory `path`, and each directory after what is in it. Symbolic links are only
    /// included with `links`, if they stay inside. What is not included is named on `screen`.
    ///
    /// # Errors
    /// Returns an error if the directory itself cannot be read or its name cannot be sent.
    pub fn walk(path: &Path, links: bool, screen: &Screen) -> Result<Vec<Self>, SendError> {
        let open = |error| SendError::Open { path: path.to_owned(), error };
        // `.` and `..` have other names.
        let named = if path.file_name().is_some() { path.to_owned() } else { path.canonicalize().map_err(open)? };
        let root = name(&named, None).map_err(|error| SendError::Name { path: path.to_owned(), error })?;
        fs::read_dir(path).map_err(open)?;
        let mut walk = Walk { links, screen, found: Vec::new() };
        walk.directory(path.to_owned(), root);
        Ok(walk.found)
    }

    /// Returns the path under which the file is sent.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the file here.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file's size in bytes when it was found, if it is known; that of others is 0.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Returns whether this is a file, rather than a directory or a link.
    #[must_use]
    pub fn is_file(&self) -> bool {
        !matches!(self.input, Input::Directory | Input::Link(_))
    }

    /// Returns whether the file can be sent from its beginning.
    fn can_restart(&self) -> bool {
        !matches!(&self.input, Input::Stdin { begun } if begun.load(Ordering::Relaxed))
    }

    /// Returns the header of the file as it is now, with `keeps` and `asks` unset, and its contents from the beginning.
    pub(super) fn begin(&self) -> io::Result<(FileHeader, Option<Contents>)> {
        let header = |kind, size, metadata: Option<Metadata>| {
            let modified = metadata.as_ref().map(Metadata::modified).transpose()?;
            io::Result::Ok(FileHeader {
                kind,
                name: self.name.clone(),
                size,
                modified: modified.map_or(Timestamp::default(), |time| Timestamp::from(time).clamped()),
                mode: metadata.as_ref().map_or(0o644, mode),
                keeps: false,
                asks: false,
            })
        };
        let file = match &self.input {
            Input::Directory => return Ok((header(Kind::Directory, None, Some(self.path.metadata()?))?, None)),
            Input::Link(target) => return Ok((header(Kind::Link(target.clone()), None, None)?, None)),
            Input::Stdin { begun } => {
                begun.store(true, Ordering::Relaxed);
                return Ok((header(Kind::File, None, None)?, Some(Contents::Stdin)));
            }
            Input::Open(file) => file.try_clone()?,
            Input::Closed => open_regular(&self.path)?,
        };
        let metadata = file.metadata()?;
        let header = header(Kind::File, Some(metadata.len()), Some(metadata))?;
        let mut contents = Contents::File(file);
        contents.rewind()?;
        Ok((header, Some(contents)))
    }
}

/// A walk through a directory.
struct Walk<'a> {
    links: bool,
    screen: &'a Screen,
    found: Vec<Source>,
}

impl Walk<'_> {
    /// Adds what is in the directory `path`, which is sent under `name`, and the directory.
    fn directory(&mut self, path: PathBuf, name: String) {
        let entries = fs::read_dir(&path).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        match entries {
            Ok(mut entries) => {
                entries.sort_by_key(fs::DirEntry::file_name);
                for entry in entries {
                    if let Err(reason) = self.entry(&entry.path(), &name) {
                        self.screen.warn(&format!("{} is not sent: {reason}", shown(&entry.path())));
                    }
                }
            }
            Err(error) => self.screen.warn(&format!("{} is not read: {error}", shown(&path))),
        }
        self.found.push(Source { path, name, size: Some(0), input: Input::Directory });
    }

    fn entry(&mut self, path: &Path, parent: &str) -> Result<(), String> {
        let name = name(path, Some(parent)).map_err(|error| error.to_string())?;
        let metadata = path.symlink_metadata().map_err(|error| error.to_string())?;
        let (size, input) = if metadata.is_dir() {
            self.directory(path.to_owned(), name);
            return Ok(());
        } else if metadata.is_file() {
            (metadata.len(), Input::Closed)
        } else if !metadata.is_symlink() {
            return Err("it is neither a file nor a directory".to_owned());
        } else if self.links {
            let target = path.read_link().map_err(|error| error.to_string())?;
            let target = target.to_str().ok_or("its target is not UTF-8")?.to_owned();
            names::check_link(&name, &target).map_err(|error| error.to_string())?;
            (0, Input::Link(target))
        } else {
            return Err("it is a symbolic link (send with --links to include those that stay inside)".to_owned());
        };
        self.found.push(Source { path: path.to_owned(), name, size: Some(size), input });
        Ok(())
    }
}

/// Returns a path for display.
fn shown(path: &Path) -> String {
    names::escaped(&path.to_string_lossy())
}

/// Returns the path under which `path` is sent, which is in the directory `parent`.
fn name(path: &Path, parent: Option<&str>) -> Result<String, NameError> {
    let name = path.file_name().unwrap_or_default();
    let name = name.to_str().ok_or_else(|| NameError::NotPlain(name.to_string_lossy().into_owned()))?;
    names::check(name)?;
    let name = parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}/{name}"));
    names::check_path(&name).map(|()| name)
}

/// Opens a file that was a regular one when its directory was read. A symbolic link is not followed, and a pipe is not
/// waited for.
fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits() as i32);
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Files to be sent, and how many of them need not be sent any more.
#[derive(Clone, Debug)]
pub struct Plan {
    sources: Vec<Arc<Source>>,
    settled: usize,
    /// Whether a receiver has replied.
    answered: bool,
}

impl Plan {
    /// Creates a plan to send all of `sources`, in this order.
    #[must_use]
    pub fn new(sources: Vec<Source>) -> Self {
        Self { sources: sources.into_iter().map(Arc::new).collect(), settled: 0, answered: false }
    }

    /// Returns whether the other files can be read again, to be sent over another connection.
    #[must_use]
    pub fn can_restart(&self) -> bool {
        self.rest().iter().all(|source| source.can_restart())
    }

    /// Returns whether the receiver has replied, so that it is one that receives files from this sender.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Returns the files that are to be sent.
    pub(super) fn rest(&self) -> &[Arc<Source>] {
        self.sources.get(self.settled..).unwrap_or_default()
    }

    /// The receiver has replied.
    pub(super) fn answered(&mut self) {
        self.answered = true;
    }

    /// The next file need not be sent any more.
    pub(super) fn settle(&mut self) {
        self.settled += 1;
    }
}

#[cfg(unix)]
fn mode(metadata: &Metadata) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    metadata.mode() & 0o7777
}

#[cfg(not(unix))]
fn mode(metadata: &Metadata) -> u32 {
    if metadata.permissions().readonly() { 0o444 } else { 0o644 }
}
