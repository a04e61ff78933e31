//! Network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::link::Link;
use crate::syscall::{Namespace, unshare};

/// Path of the opening thread's own namespace.
pub(crate) const OWN: &str = "/proc/thread-self/ns/net";
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

    /// Opens the namespace that `ip netns add` created with this name.
    ///
    /// # Errors
    /// Returns the system's error if the namespace does not exist, and `InvalidInput` if `name` is not a plain file
    /// name.
    pub fn open(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a namespace name"));
        }
        Ok(Self { file: File::open(Path::new(NAMED).join(name))? })
    }

    /// Creates an anonymous namespace with its loopback interface up. The calling thread stays in its own namespace.
    /// Needs `CAP_SYS_ADMIN`.
    pub fn anonymous() -> io::Result<Self> {
        in_thread(new_namespace)
    }

    /// Moves the calling thread to the namespace. Sockets, devices and child processes that the thread creates
    /// afterwards are in the namespace. Needs `CAP_SYS_ADMIN`.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `work` on a new thread in the namespace and waits for it. A panic of `work` is propagated.
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
