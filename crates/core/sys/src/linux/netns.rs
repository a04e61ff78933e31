//! Network namespaces.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::mount::{UnmountFlags, mount_bind, unmount};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::link::Link;
use super::syscall::{Namespace, unshare};

/// Path of the opening thread's own namespace.
pub(super) const OWN: &str = "/proc/thread-self/ns/net";
/// Directory of the named namespaces of `ip netns`.
const NAMED: &str = "/run/netns";

/// Network namespace. The kernel removes an anonymous namespace when no handle, thread, process or socket refers to it.
#[derive(Debug)]
pub struct NetNs {
    file: File,
}

impl NetNs {
    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// Returns an error if `/proc` is not mounted.
    pub fn current() -> io::Result<Self> {
        Ok(Self { file: File::open(OWN)? })
    }

    /// Opens the namespace that [`create`](Self::create) or `ip netns add` created with this name.
    ///
    /// # Errors
    /// Returns the system's error if the namespace does not exist, and `InvalidInput` if `name` is not a plain file
    /// name.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self { file: File::open(path(name)?)? })
    }

    /// Creates an anonymous namespace with its loopback interface up. The calling thread stays in its own namespace.
    /// Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// Returns the system's error if this is not permitted or there are too many namespaces.
    pub fn anonymous() -> io::Result<Self> {
        in_thread(new_namespace)
    }

    /// Creates a namespace like [`anonymous`](Self::anonymous), with a name for [`open`](Self::open) and `ip -n NAME`.
    /// The namespace exists at least until [`delete`](Self::delete).
    ///
    /// # Errors
    /// Returns the system's error if this is not permitted or the name exists, and `InvalidInput` if `name` is not a
    /// plain file name.
    pub fn create(name: &str) -> io::Result<Self> {
        let path = path(name)?;
        fs::create_dir_all(NAMED)?;
        File::create_new(&path)?;
        let created = in_thread(|| {
            let namespace = new_namespace()?;
            mount_bind(OWN, &path)?;
            Ok(namespace)
        });
        if created.is_err() {
            // If removing the file fails, too, the first error is the one to report.
            let _ = fs::remove_file(&path);
        }
        created
    }

    /// Removes the name. The namespace itself exists as long as it is in use.
    ///
    /// # Errors
    /// Returns the system's error if the namespace does not exist or this is not permitted, and `InvalidInput` if
    /// `name` is not a plain file name.
    pub fn delete(name: &str) -> io::Result<()> {
        let path = path(name)?;
        unmount(&path, UnmountFlags::DETACH)?;
        fs::remove_file(path)
    }

    /// Moves the calling thread to the namespace. Sockets, devices and child processes that the thread creates
    /// afterwards are in the namespace. Needs `CAP_SYS_ADMIN`.
    ///
    /// # Errors
    /// Returns the system's error if this is not permitted.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `work` on a new thread in the namespace and waits for it. A panic of `work` is propagated.
    ///
    /// # Errors
    /// Returns the system's error if this is not permitted or no thread can be started.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> io::Result<R> {
        in_thread(|| {
            self.enter()?;
            Ok(work())
        })
    }
}

fn new_namespace() -> io::Result<NetNs> {
    unshare(Namespace::Network)?;
    Link::new("lo")?.set_up()?;
    NetNs::current()
}

/// Runs `work` on a new thread, so that a change of its namespace affects no other code.
fn in_thread<R: Send>(work: impl FnOnce() -> io::Result<R> + Send) -> io::Result<R> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, work)?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn path(name: &str) -> io::Result<PathBuf> {
    let plain = !name.is_empty() && !name.contains(['/', '\0']) && name != "." && name != "..";
    if !plain {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a namespace name"));
    }
    Ok(Path::new(NAMED).join(name))
}
