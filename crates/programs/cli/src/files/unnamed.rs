//! Files without a name, which Linux can give one later.

use std::fs::File;

use rustix::io::Errno;

/// Creates a file without a name in the file system of `directory`, or returns `None` if that is not possible there.
pub(super) fn create(directory: &File) -> Option<File> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{Mode, OFlags};
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(directory, ".", flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        None
    }
}

/// Gives `file` the name `name`, which must be free, in `directory`.
/// Returns the system's error: `EXIST` if the name is taken.
pub(super) fn link(file: &File, directory: &File, name: &[u8]) -> Result<(), Errno> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;

        use rustix::fs::{AtFlags, CWD, linkat};
        match linkat(file, "", directory, name, AtFlags::EMPTY_PATH) {
            // Before Linux 6.10, an empty path requires a capability.
            Err(Errno::NOENT) => {
                let path = format!("/proc/self/fd/{}", file.as_raw_fd());
                linkat(CWD, path, directory, name, AtFlags::SYMLINK_FOLLOW)
            }
            linked => linked,
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, directory, name);
        Err(Errno::NOSYS)
    }
}
