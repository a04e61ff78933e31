//! Directories to be sent. Each is opened relative to its parent, so that a link created in the meantime cannot lead to
//! a file outside.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::names::{self, Name};
use crate::protocol::Timestamp;

pub(super) enum Found {
    /// A directory with this modification time.
    Directory(Timestamp),
    /// A regular file of this length and modification time.
    File(u64, Timestamp),
    Link,
    /// Another kind of file, such as a pipe.
    Other,
}

#[derive(Debug)]
pub(super) struct Directory(File);

/// The directory of the latest file, which stays open for the next file in it: the root, the path and the directory.
#[derive(Default)]
pub(super) struct Latest(Option<(Arc<Directory>, Vec<u8>, File)>);

impl Directory {
    /// Opens a directory that the user has named. Follows links in its path.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?.into()))
    }

    pub(super) fn below(&self, name: &Name) -> io::Result<Self> {
        open(&self.0, name.as_bytes(), OFlags::DIRECTORY).map(Self)
    }

    pub(super) fn names(&self) -> io::Result<Vec<Name>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name.into());
            }
        }
        Ok(names)
    }

    pub(super) fn find(&self, name: &Name) -> io::Result<Found> {
        let stat = rustix::fs::statat(&self.0, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
        #[expect(clippy::useless_conversion, reason = "other systems have other types")]
        let modified = Timestamp { seconds: stat.st_mtime.into(), nanos: stat.st_mtime_nsec as u32 }.clamped();
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Found::Directory(modified),
            FileType::RegularFile => Found::File(u64::try_from(stat.st_size).unwrap_or_default(), modified),
            FileType::Symlink => Found::Link,
            _ => Found::Other,
        })
    }

    pub(super) fn target(&self, name: &Name) -> io::Result<Name> {
        Ok(rustix::fs::readlinkat(&self.0, name.as_bytes(), Vec::new())?.into_bytes().into())
    }

    /// Opens a file. The first name in its path is that of this directory. Follows no link, and does not wait for
    /// the writer of a pipe.
    pub(super) fn file(self: &Arc<Self>, path: &Name, latest: &mut Latest) -> io::Result<File> {
        let (above, name) = names::split(path);
        let opened = match latest.0.take().filter(|(root, open, _)| Arc::ptr_eq(root, self) && open == above) {
            Some(opened) => opened,
            None => {
                let mut names: Vec<_> = names::parts(path).skip(1).collect();
                names.pop();
                (Arc::clone(self), above.to_vec(), self.walk(&names)?)
            }
        };
        open(&latest.0.insert(opened).2, name, OFlags::NONBLOCK)
    }

    /// Returns the attributes of a directory. The first name in its path is that of this directory.
    pub(super) fn metadata(&self, path: &Name) -> io::Result<Metadata> {
        self.walk(&names::parts(path).skip(1).collect::<Vec<_>>())?.metadata()
    }

    fn walk(&self, names: &[&[u8]]) -> io::Result<File> {
        names.iter().try_fold(self.0.try_clone()?, |directory, name| open(&directory, name, OFlags::DIRECTORY))
    }
}

fn open(directory: &File, name: &[u8], flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?.into())
}
