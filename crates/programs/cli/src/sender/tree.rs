//! Directories to be sent. Each is opened relative to its parent, so that a link created in the meantime cannot lead to
//! a file outside.

#[cfg(not(unix))]
pub(super) use elsewhere::{Directory, Latest};
#[cfg(unix)]
pub(super) use unix::{Directory, Latest};

use crate::names::Name;
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

#[cfg(unix)]
mod unix {
    use std::fs::{File, Metadata};
    use std::io;
    use std::path::Path;
    use std::sync::Arc;

    use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

    use super::{Found, Name, Timestamp};
    use crate::names;

    #[derive(Debug)]
    pub(in super::super) struct Directory(File);

    /// The directory of the latest file, which remains open for the next file in it: the root, the path and the
    /// directory.
    #[derive(Default)]
    pub(in super::super) struct Latest(Option<(Arc<Directory>, Vec<u8>, File)>);

    impl Directory {
        /// Opens a directory that the user has named. Follows links in its path.
        pub(in super::super) fn open(path: &Path) -> io::Result<Self> {
            let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
            Ok(Self(rustix::fs::open(path, flags, Mode::empty())?.into()))
        }

        pub(in super::super) fn below(&self, name: &Name) -> io::Result<Self> {
            open(&self.0, name.as_bytes(), OFlags::DIRECTORY).map(Self)
        }

        pub(in super::super) fn names(&self) -> io::Result<Vec<Name>> {
            let mut names = Vec::new();
            for entry in Dir::read_from(&self.0)? {
                let name = entry?.file_name().to_bytes().to_vec();
                if name != b"." && name != b".." {
                    names.push(name.into());
                }
            }
            Ok(names)
        }

        pub(in super::super) fn find(&self, name: &Name) -> io::Result<Found> {
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

        pub(in super::super) fn target(&self, name: &Name) -> io::Result<Name> {
            Ok(rustix::fs::readlinkat(&self.0, name.as_bytes(), Vec::new())?.into_bytes().into())
        }

        /// Opens a file. The first name in its path is the name of this directory. Follows no link, and does not wait
        /// for the writer of a pipe.
        pub(in super::super) fn file(self: &Arc<Self>, path: &Name, latest: &mut Latest) -> io::Result<File> {
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

        /// Returns the attributes of a directory. The first name in its path is the name of this directory.
        pub(in super::super) fn metadata(&self, path: &Name) -> io::Result<Metadata> {
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
}

#[cfg(not(unix))]
mod elsewhere {
    use std::fs::{self, File, Metadata};
    use std::io;
    use std::path::{Path, PathBuf};

    use super::{Found, Name, Timestamp};

    pub(in super::super) struct Directory(PathBuf);

    /// Files are opened by their whole paths.
    #[derive(Default)]
    pub(in super::super) struct Latest;

    impl Directory {
        pub(in super::super) fn open(path: &Path) -> io::Result<Self> {
            fs::read_dir(path).map(|_| Self(path.to_owned()))
        }

        pub(in super::super) fn below(&self, name: &Name) -> io::Result<Self> {
            Ok(Self(self.0.join(name.to_local())))
        }

        pub(in super::super) fn names(&self) -> io::Result<Vec<Name>> {
            fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name().as_os_str().into())).collect()
        }

        pub(in super::super) fn find(&self, name: &Name) -> io::Result<Found> {
            let metadata = self.0.join(name.to_local()).symlink_metadata()?;
            let modified = Timestamp::from(metadata.modified()?).clamped();
            Ok(match metadata.file_type() {
                kind if kind.is_dir() => Found::Directory(modified),
                kind if kind.is_file() => Found::File(metadata.len(), modified),
                kind if kind.is_symlink() => Found::Link,
                _ => Found::Other,
            })
        }

        pub(in super::super) fn target(&self, name: &Name) -> io::Result<Name> {
            fs::read_link(self.0.join(name.to_local())).map(|target| target.as_os_str().into())
        }

        pub(in super::super) fn file(&self, path: &Name, _: &mut Latest) -> io::Result<File> {
            File::open(self.path(path))
        }

        pub(in super::super) fn metadata(&self, path: &Name) -> io::Result<Metadata> {
            self.path(path).metadata()
        }

        fn path(&self, path: &Name) -> PathBuf {
            let names = crate::names::parts(path).skip(1).map(|name| Name::from(name.to_owned()));
            names.fold(self.0.clone(), |directory, name| directory.join(name.to_local()))
        }
    }
}
